"""Counts of byte values: a histogram a program, added to the shared one by atomics."""

import torch
import triton
import triton.language as tl

SHAPES = [{"N": 1 << 26}]
SPACE = {
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "ROUNDS": [1, 4, 16, 64],
    "num_warps": [2, 4, 8],
}
BINS = 256


def reference(x):
    return torch.bincount(x, minlength=BINS).int()


def inputs(N=1 << 26, device="cuda"):
    return (torch.randint(0, BINS, (N,), dtype=torch.uint8, device=device),)


@triton.jit
def clear_kernel(out_ptr, BINS: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BINS), tl.zeros((BINS,), dtype=tl.int32))


@triton.jit
def histogram_kernel(x_ptr, out_ptr, N, ROUNDS, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros((BINS,), dtype=tl.int32)
    first = tl.program_id(0) * ROUNDS * BLOCK
    for start in range(first, min(first + ROUNDS * BLOCK, N), BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0).to(tl.int32)
        counts += tl.histogram(x, BINS, mask=at < N)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts, sem="relaxed")


def valid(params, shape):
    """Four to 128 elements a thread."""
    return 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 128


def kernel(x, *, BLOCK=2048, ROUNDS=16, num_warps=4):
    N = x.shape[0]
    out = torch.empty(BINS, dtype=torch.int32, device=x.device)
    clear_kernel[(1,)](out, BINS)
    grid = (triton.cdiv(N, BLOCK * ROUNDS),)
    histogram_kernel[grid](x, out, N, ROUNDS, BINS, BLOCK, num_warps=num_warps)
    return out
