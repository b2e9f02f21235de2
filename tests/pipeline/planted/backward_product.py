"""A gradient of two products whose tile grew with a new default."""

import torch
import triton
import triton.language as tl

PLANTED = "spills"


def inputs(M=4096, N=2048, K=2048, device="cuda"):
    g = torch.randn(M, N, device=device, dtype=torch.bfloat16)
    w = torch.randn(K, N, device=device, dtype=torch.bfloat16)
    v = torch.randn(K, N, device=device, dtype=torch.bfloat16)
    return g, w, v


def reference(g, w, v):
    return g @ w.T, g @ v.T


@triton.jit
def gradient_kernel(g, w, v, dx, dy, K, N, BM: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BK + tl.arange(0, BK)
    inner = tl.arange(0, 32)
    one, two = tl.zeros((BM, BK), tl.float32), tl.zeros((BM, BK), tl.float32)
    for n in range(0, N, 32):
        grad = tl.load(g + rows[:, None] * N + n + inner[None, :])
        one = tl.dot(grad, tl.trans(tl.load(w + columns[:, None] * N + n + inner[None, :])), one)
        two = tl.dot(grad, tl.trans(tl.load(v + columns[:, None] * N + n + inner[None, :])), two)
    place = rows[:, None] * K + columns[None, :]
    tl.store(dx + place, one.to(tl.bfloat16))
    tl.store(dy + place, two.to(tl.bfloat16))


def kernel(g, w, v, *, PLANT=False, num_warps=4, num_stages=2):
    (M, N), K = g.shape, w.shape[0]
    BM = 256 if PLANT else 64
    dx = torch.empty(M, K, device=g.device, dtype=g.dtype)
    dy = torch.empty_like(dx)
    gradient_kernel[(M // BM, K // 128)](
        g, w, v, dx, dy, K, N, BM, 128, num_warps=num_warps, num_stages=num_stages
    )
    return dx, dy
