"""Linear layer in two launches: a product of tiles, then bias and ReLU over all elements."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 4096, "K": 512}]
HELD_OUT_SHAPES = [{"M": 1000, "N": 2040, "K": 300}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, w, bias):
    return torch.relu(x @ w.t() + bias)


def inputs(M=4096, N=4096, K=512, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randn(N, K, dtype=dtype, device=device) * K**-0.5
    bias = torch.randn(N, dtype=dtype, device=device)
    return x, w, bias


@triton.jit
def gemm_nt(
    x_ptr, w_ptr, y_ptr, M, N, K, sxm, swn, sym,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        x = tl.load(
            x_ptr + rm[:, None] * sxm + rk[None, :],
            mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0,
        )  # fmt: skip
        w = tl.load(
            w_ptr + rn[None, :] * swn + rk[:, None],
            mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0,
        )  # fmt: skip
        acc += tl.dot(x, w)
    tl.store(
        y_ptr + rm[:, None] * sym + rn[None, :], acc.to(y_ptr.dtype.element_ty),
        mask=(rm[:, None] < M) & (rn[None, :] < N),
    )  # fmt: skip


@triton.jit
def bias_relu(y_ptr, bias_ptr, out_ptr, total, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    y = tl.load(y_ptr + i, mask=inside).to(tl.float32)
    b = tl.load(bias_ptr + i % N, mask=inside).to(tl.float32)
    tl.store(out_ptr + i, tl.maximum(y + b, 0.0), mask=inside)


def kernel(x, w, bias):
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    out = torch.empty_like(y)
    gemm_nt[(triton.cdiv(M, 64), triton.cdiv(N, 64))](
        x, w, y, M, N, K, x.stride(0), w.stride(0), y.stride(0), BM=64, BN=64, BK=32
    )
    bias_relu[(triton.cdiv(M * N, 1024),)](y, bias, out, M * N, N, BLOCK=1024)
    return out
