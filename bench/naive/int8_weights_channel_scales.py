"""Product with int8 weights, whose scales of channels are loaded and applied in each trip."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 2048, "N": 4096, "K": 4096}]
HELD_OUT_SHAPES = [{"M": 500, "N": 2000, "K": 1500}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(x, qweight, scales):
    return (x.float() @ (qweight.float() * scales.float())).to(x.dtype)


def inputs(M=2048, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    qweight = torch.randint(-127, 128, (K, N), dtype=torch.int8, device=device)
    scales = (torch.rand(N, device=device) + 0.5) * K**-0.5 / 73
    return x, qweight, scales


@triton.jit
def w8_kernel(
    x_ptr, q_ptr, s_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + offs_m[:, None] * K + offs_k[None, :],
            mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0,
        )  # fmt: skip
        q = tl.load(
            q_ptr + offs_k[:, None] * N + offs_n[None, :],
            mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0,
        )  # fmt: skip
        scale = tl.load(s_ptr + offs_n, mask=offs_n < N, other=0.0)
        w = q.to(tl.float32) * scale[None, :]
        acc += tl.dot(x.to(tl.float32), w)
    y_ptrs = y_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(y_ptrs, acc.to(tl.bfloat16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def kernel(x, qweight, scales):
    M, K = x.shape
    N = qweight.shape[1]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    w8_kernel[grid](x, qweight, scales, y, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    return y
