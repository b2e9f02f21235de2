"""Block pointers over the matrix of tokens by (head, half, pair): no masks are written."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "TOKENS": [1, 2, 4, 8, 16, 32, 64],
    "ANGLES_LAST": [False, True],
    "HEADS_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def block_pointer_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, T, H,
    HALF: tl.constexpr, TOKENS: tl.constexpr, ANGLES_LAST: tl.constexpr, HEADS_FIRST: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0 if HEADS_FIRST else 1)
    t0 = tl.program_id(1 if HEADS_FIRST else 0) * TOKENS
    width = H * 2 * HALF
    at = head * 2 * HALF
    x = tl.make_block_ptr(x_ptr, (T, width), (width, 1), (t0, at), (TOKENS, HALF), (1, 0))
    out = tl.make_block_ptr(out_ptr, (T, width), (width, 1), (t0, at), (TOKENS, HALF), (1, 0))
    cos = tl.make_block_ptr(cos_ptr, (T, HALF), (HALF, 1), (t0, 0), (TOKENS, HALF), (1, 0))
    sin = tl.make_block_ptr(sin_ptr, (T, HALF), (HALF, 1), (t0, 0), (TOKENS, HALF), (1, 0))
    if not ANGLES_LAST:
        c = tl.load(cos, boundary_check=(0,))
        s = tl.load(sin, boundary_check=(0,))
    low = tl.load(x, boundary_check=(0,)).to(tl.float32)
    high = tl.load(tl.advance(x, (0, HALF)), boundary_check=(0,)).to(tl.float32)
    if ANGLES_LAST:
        c = tl.load(cos, boundary_check=(0,))
        s = tl.load(sin, boundary_check=(0,))
    kind = out_ptr.dtype.element_ty
    tl.store(out, (low * c - high * s).to(kind), boundary_check=(0,))
    tl.store(tl.advance(out, (0, HALF)), (high * c + low * s).to(kind), boundary_check=(0,))


def valid(params, shape):
    """A pair for every other thread, up to 64 a thread."""
    pairs = params["TOKENS"] * shape["D"] // 2
    return 1 / 2 <= pairs / (32 * params["num_warps"]) <= 64


def kernel(x, cos, sin, *, TOKENS=8, ANGLES_LAST=False, HEADS_FIRST=False, num_warps=2):
    T, H, D = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(T, TOKENS), H)
    block_pointer_kernel[grid[::-1] if HEADS_FIRST else grid](
        x, cos, sin, out, T, H, D // 2, TOKENS, ANGLES_LAST, HEADS_FIRST, num_warps=num_warps
    )
    return out
