"""Log softmax of long rows: a while loop with running statistics from -1e30, then another."""

import torch
import triton
import triton.language as tl

SHAPES = [{"n_rows": 256, "n_cols": 50304}]
HELD_OUT_SHAPES = [{"n_rows": 33, "n_cols": 10007}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(logits):
    return torch.log_softmax(logits.float(), dim=-1)


def inputs(n_rows=256, n_cols=50304, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(n_rows, n_cols, dtype=dtype, device=device) * 3,)


@triton.jit
def log_softmax_fwd(out, inp, stride_in, stride_out, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    inp += row * stride_in
    out += row * stride_out
    m_i = -1e30
    l_i = 0.0
    start = 0
    while start < n_cols:
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(inp + offs, mask=offs < n_cols, other=-1e30).to(tl.float32)
        m_new = tl.maximum(m_i, tl.max(x, 0))
        l_i = l_i * tl.exp(m_i - m_new) + tl.sum(tl.exp(x - m_new), 0)
        m_i = m_new
        start += BLOCK
    lse = m_i + tl.log(l_i)
    start = 0
    while start < n_cols:
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(inp + offs, mask=offs < n_cols, other=0.0).to(tl.float32)
        tl.store(out + offs, x - lse, mask=offs < n_cols)
        start += BLOCK


def kernel(logits):
    out = torch.empty(logits.shape, device=logits.device, dtype=torch.float32)
    n_rows, n_cols = logits.shape
    log_softmax_fwd[(n_rows,)](
        out, logits, logits.stride(0), out.stride(0), n_cols, BLOCK=256, num_warps=1
    )
    return out
