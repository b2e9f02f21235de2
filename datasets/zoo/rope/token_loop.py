"""Some tokens a program, their angles loaded once; a loop goes over the heads."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "TOKENS": [1, 2, 4, 8, 16],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4],
    "num_stages": [1, 2, 4],
}


@triton.jit
def token_loop_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, T, H,
    HALF: tl.constexpr, TOKENS: tl.constexpr, UNROLL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_ptr + t * HALF + d, mask=t < T)
    sin = tl.load(sin_ptr + t * HALF + d, mask=t < T)
    low_at = t * H * 2 * HALF + d
    for _ in tl.range(0, H, loop_unroll_factor=UNROLL, num_stages=STAGES):
        low = tl.load(x_ptr + low_at, mask=t < T).to(tl.float32)
        high = tl.load(x_ptr + low_at + HALF, mask=t < T).to(tl.float32)
        first = low * cos - high * sin
        second = high * cos + low * sin
        tl.store(out_ptr + low_at, first.to(out_ptr.dtype.element_ty), mask=t < T)
        tl.store(out_ptr + low_at + HALF, second.to(out_ptr.dtype.element_ty), mask=t < T)
        low_at += 2 * HALF


def valid(params, shape):
    """One pair for every other thread, up to 32 a thread."""
    pairs = params["TOKENS"] * shape["D"] // 2
    return 1 / 2 <= pairs / (32 * params["num_warps"]) <= 32


def kernel(x, cos, sin, *, TOKENS=2, UNROLL=1, num_warps=1, num_stages=1):
    T, H, D = x.shape
    out = torch.empty_like(x)
    token_loop_kernel[(triton.cdiv(T, TOKENS),)](
        x, cos, sin, out, T, H, D // 2, TOKENS, UNROLL, num_stages, num_warps=num_warps
    )
    return out
