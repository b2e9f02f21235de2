"""Product with int8 weights and a scale for each group of 64 rows and each channel."""

import torch
import triton
import triton.language as tl

GROUP = 64
SHAPES = [{"M": 1024, "N": 4096, "K": 4096}]
HELD_OUT_SHAPES = [{"M": 300, "N": 1000, "K": 1536}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(act, wq, ws):
    w = wq.float() * ws.float().repeat_interleave(GROUP, 0)
    return (act.float() @ w).to(act.dtype)


def inputs(M=1024, N=4096, K=4096, dtype=torch.float16, device="cuda"):
    act = torch.randn(M, K, dtype=dtype, device=device)
    wq = torch.randint(-127, 128, (K, N), dtype=torch.int8, device=device)
    ws = (torch.rand(K // GROUP, N, device=device) + 0.5) * K**-0.5 / 73
    return act, wq, ws


@triton.jit
def group_kernel(
    act, wq, ws, out, M, N, K,
    G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        a = tl.load(
            act + rows[:, None] * K + ks[None, :],
            mask=(rows < M)[:, None] & (ks < K)[None, :], other=0.0,
        )  # fmt: skip
        q = tl.load(
            wq + ks[:, None] * N + cols[None, :],
            mask=(ks < K)[:, None] & (cols < N)[None, :], other=0,
        )  # fmt: skip
        s = tl.load(ws + (k // G) * N + cols, mask=cols < N, other=0.0)
        acc += tl.dot(a.to(tl.float32), q.to(tl.float32) * s[None, :])
    tl.store(
        out + rows[:, None] * N + cols[None, :], acc.to(out.dtype.element_ty),
        mask=(rows < M)[:, None] & (cols < N)[None, :],
    )  # fmt: skip


def kernel(act, wq, ws):
    M, K = act.shape
    N = wq.shape[1]
    out = torch.empty((M, N), dtype=act.dtype, device=act.device)
    group_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 64))](
        act, wq, ws, out, M, N, K, G=GROUP, BM=32, BN=64, BK=32
    )
    return out
