"""A matrix product of bf16 activations with int8 weights, which are scaled on the way."""

import torch
import triton
import triton.language as tl

TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(x, w, scale):
    return (x.float() @ (w.float() * scale)).to(x.dtype)


def inputs(M=256, N=4096, K=2048, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randint(-128, 128, (K, N), dtype=torch.int8, device=device)
    return x, w, torch.rand(N, device=device) * K**-0.5 / 64


@triton.jit
def weight_only_kernel(
    x, w, scale, out, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(x + m[:, None] * K + start + k[None, :])
        b = tl.load(w + (start + k[:, None]) * N + n[None, :])
        sums = tl.dot(a, b.to(a.dtype), sums)
    sums *= tl.load(scale + n)[None, :]
    tl.store(out + m[:, None] * N + n[None, :], sums.to(out.dtype.element_ty))


def kernel(x, w, scale, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=4):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    weight_only_kernel[(M // BLOCK_M, N // BLOCK_N)](
        x, w, scale, out, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps,
        num_stages=num_stages,
    )  # fmt: skip
    return out
