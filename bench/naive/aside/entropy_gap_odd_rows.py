"""Cross entropy of two distributions of logits, odd rows: counted loops, an online sum, a dot."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 2048, "words": 32003}]
HELD_OUT_SHAPES = [{"rows": 19, "words": 4999}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(target, logits):
    return -(target.float() * torch.log_softmax(logits.float(), -1)).sum(-1)


def inputs(rows=2048, words=32003, device="cuda"):
    target = torch.softmax(torch.randn(rows, words, device=device), -1).to(torch.bfloat16)
    return target, torch.randn(rows, words, dtype=torch.bfloat16, device=device)


@triton.jit
def soft_target_loss(t_ptr, z_ptr, loss_ptr, t_stride, z_stride, N, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK_N)
    t_ptrs = t_ptr + pid * t_stride + offs
    z_ptrs = z_ptr + pid * z_stride + offs
    m = -float("inf")
    s = 0.0
    mass = 0.0
    dot = 0.0
    for k in range(0, tl.cdiv(N, BLOCK_N)):
        mask = k * BLOCK_N + offs < N
        z = tl.load(z_ptrs + k * BLOCK_N, mask=mask, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(z, 0))
        s = s * tl.exp(m - m_new) + tl.sum(tl.exp(z - m_new), 0)
        m = m_new
        t = tl.load(t_ptrs + k * BLOCK_N, mask=mask, other=0.0).to(tl.float32)
        mass += tl.sum(t, 0)
        dot += tl.sum(tl.where(mask, t * z, 0.0), 0)
    tl.store(loss_ptr + pid, mass * (m + tl.log(s)) - dot)


def kernel(target, logits):
    rows, words = logits.shape
    loss = torch.empty(rows, dtype=torch.float32, device=logits.device)
    soft_target_loss[(rows,)](
        target, logits, loss, target.stride(0), logits.stride(0), words, BLOCK_N=256
    )
    return loss
