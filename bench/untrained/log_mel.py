"""A log-mel spectrum: log10(max((re² + im²) W, 1e-6)), the power computed as the tiles arrive."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 65536, "K": 512, "N": 128}]
SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
LEAST = 1e-6


def reference(real, imaginary, bank):
    power = real.float().square() + imaginary.float().square()
    return torch.log10((power.to(bank.dtype) @ bank).float().clamp(min=LEAST))


def inputs(M=65536, K=512, N=128, dtype=torch.bfloat16, device="cuda"):
    real, imaginary = (torch.randn(M, K, dtype=dtype, device=device) for _ in range(2))
    return real, imaginary, torch.rand(K, N, dtype=dtype, device=device) / K


def valid(params, shape):
    """A thread holds 4 to 64 sums and at most 64 inputs; tiles fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    threads = 32 * params["num_warps"]
    shared = params["num_stages"] * (2 * m + n) * k * 2
    return 4 <= m * n / threads <= 64 and m * k / threads <= 64 and shared <= 200 * 1024


@triton.jit
def log_mel_kernel(
    re_ptr, im_ptr, w_ptr, out_ptr, M, K, N, least,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    start = m.to(tl.int64)[:, None] * K + k[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for at in range(0, K, BLOCK_K):
        inside = (m < M)[:, None] & (k[None, :] < K - at)
        real = tl.load(re_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        imaginary = tl.load(im_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        power = real * real + imaginary * imaginary
        held = (k[:, None] < K - at) & (n < N)[None, :]
        bank = tl.load(w_ptr + (k[:, None] + at) * N + n[None, :], mask=held, other=0.0)
        acc = tl.dot(power.to(bank.dtype), bank, acc)
    found = tl.log(tl.maximum(acc, least)) * 0.4342944819  # log10(e)
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(out_ptr + m.to(tl.int64)[:, None] * N + n[None, :], found, mask=inside)


def kernel(real, imaginary, bank, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=2):
    (M, K), N = real.shape, bank.shape[1]
    out = torch.empty(M, N, dtype=torch.float32, device=real.device)
    log_mel_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        real, imaginary, bank, out, M, K, N, LEAST, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
