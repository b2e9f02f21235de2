"""The Jensen-Shannon divergence of each row of two sets of log probabilities, in one pass."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 32000}]
SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "ROWS": [1, 2, 4],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4],
}
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def reference(log_p, log_q):
    p, q = log_p.float().exp(), log_q.float().exp()
    log_m = ((p + q) / 2).log()
    own = p * (log_p.float() - log_m) + q * (log_q.float() - log_m)
    return own.sum(1) / 2


def inputs(M=4096, N=32000, dtype=torch.bfloat16, device="cuda"):
    drawn = (torch.randn(M, N, dtype=dtype, device=device) for _ in range(2))
    return tuple(torch.log_softmax(each, dim=1) for each in drawn)


def valid(params, shape):
    """A thread holds at most 64 elements."""
    block, warps = params["BLOCK"] * params["ROWS"], params["num_warps"]
    return 32 * warps <= block <= 64 * 32 * warps


@triton.jit
def jsd_kernel(p_ptr, q_ptr, out_ptr, M, N, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = row.to(tl.int64)[:, None] * N
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for at in range(0, N, BLOCK):
        cols = at + tl.arange(0, BLOCK)
        inside = (row < M)[:, None] & (cols < N)[None, :]
        log_p = tl.load(p_ptr + start + cols[None, :], mask=inside, other=-30.0).to(tl.float32)
        log_q = tl.load(q_ptr + start + cols[None, :], mask=inside, other=-30.0).to(tl.float32)
        p, q = tl.exp(log_p), tl.exp(log_q)
        log_m = tl.log((p + q) * 0.5)
        total += tl.where(inside, p * (log_p - log_m) + q * (log_q - log_m), 0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=1) * 0.5, mask=row < M)


def kernel(log_p, log_q, *, BLOCK=1024, ROWS=1, num_warps=4, num_stages=3):
    M, N = log_p.shape
    out = torch.empty(M, dtype=torch.float32, device=log_p.device)
    jsd_kernel[(triton.cdiv(M, ROWS),)](
        log_p, log_q, out, M, N, BLOCK, ROWS, num_warps=num_warps, num_stages=num_stages
    )
    return out
