"""A flat sweep over the result, places by division; the window unrolled or walked row by row."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.average_pool2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "UNROLLED": [False, True],
    "PROGRAMS": [0, 528, 1056],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def load_pixel(x_ptr, at, inside):
    return tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def flat_kernel(
    x_ptr, out_ptr, H, W, C, P, Q, total,
    R: tl.constexpr, BLOCK: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    for start in range(tl.program_id(0) * BLOCK, total, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        c, q, p, b = at % C, at // C % Q, at // (C * Q) % P, at // (C * Q) // P
        source = ((b * H + p * R) * W + q * R) * C + c
        acc = tl.zeros((BLOCK,), dtype=tl.float32)
        if UNROLLED:
            for i in tl.static_range(R):
                for j in tl.static_range(R):
                    acc += load_pixel(x_ptr, source + (i * W + j) * C, at < total)
        else:
            for i in range(R):
                for j in range(R):
                    acc += load_pixel(x_ptr, source + (i * W + j) * C, at < total)
        tl.store(out_ptr + at, (acc / (R * R)).to(out_ptr.dtype.element_ty), mask=at < total)


def valid(params, shape):
    """One to 16 outputs a thread, windows under 5 x 5 unrolled; PROGRAMS = 0: one a block."""
    fits = shape["R"] < 5 or not params["UNROLLED"]
    return fits and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, window, *, BLOCK=256, UNROLLED=False, PROGRAMS=0, num_warps=4):
    B, H, W, C = x.shape
    P, Q = H // window, W // window
    out = torch.empty((B, P, Q, C), dtype=x.dtype, device=x.device)
    total = out.numel()
    blocks = triton.cdiv(total, BLOCK)
    flat_kernel[(min(PROGRAMS or blocks, blocks),)](
        x, out, H, W, C, P, Q, total, window, BLOCK, UNROLLED, num_warps=num_warps
    )
    return out
