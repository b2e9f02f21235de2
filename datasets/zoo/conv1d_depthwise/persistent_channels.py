"""Programs keep the weights of their channels and walk over all batches and times, tile by tile."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_T": [4, 8, 16, 32, 64],
    "BLOCK_C": [32, 64, 128, 256],
    "WALKERS": [8, 32, 128],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def resident_kernel(
    x_ptr, weight_ptr, out_ptr, B, T, C,
    BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    known = c < C
    w0 = tl.load(weight_ptr + c * 4, mask=known, other=0.0).to(tl.float32)
    w1 = tl.load(weight_ptr + c * 4 + 1, mask=known, other=0.0).to(tl.float32)
    w2 = tl.load(weight_ptr + c * 4 + 2, mask=known, other=0.0).to(tl.float32)
    w3 = tl.load(weight_ptr + c * 4 + 3, mask=known, other=0.0).to(tl.float32)
    tiles = tl.cdiv(T, BLOCK_T)
    for tile in tl.range(tl.program_id(1), B * tiles, tl.num_programs(1), num_stages=STAGES):
        t = tile % tiles * BLOCK_T + tl.arange(0, BLOCK_T)[:, None]
        here = (tile // tiles * T + t) * C + c
        inside = known & (t < T)
        acc = tl.load(x_ptr + here, mask=inside, other=0.0).to(tl.float32) * w3
        x = tl.load(x_ptr + here - C, mask=inside & (t > 0), other=0.0)
        acc += x.to(tl.float32) * w2
        x = tl.load(x_ptr + here - 2 * C, mask=inside & (t > 1), other=0.0)
        acc += x.to(tl.float32) * w1
        x = tl.load(x_ptr + here - 3 * C, mask=inside & (t > 2), other=0.0)
        acc += x.to(tl.float32) * w0
        out = acc * (1.0 / (1.0 + tl.exp2(acc * -1.4426950408889634)))
        tl.store(out_ptr + here, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 elements a thread, no tile far larger than what there is, stages that fit."""
    t, c = params["BLOCK_T"], params["BLOCK_C"]
    fits = t < 2 * shape["T"] and c < 2 * shape["C"]
    size = 4 if shape["dtype"] in ("float32", torch.float32) else 2
    fits = fits and 4 * (params["STAGES"] - 1) * t * c * size <= 220 * 1024
    return fits and 1 <= t * c / (32 * params["num_warps"]) <= 32


def kernel(x, weight, *, BLOCK_T=16, BLOCK_C=64, WALKERS=128, STAGES=1, num_warps=4):
    B, T, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK_C), min(WALKERS, B * triton.cdiv(T, BLOCK_T)))
    resident_kernel[grid](x, weight, out, B, T, C, BLOCK_T, BLOCK_C, STAGES, num_warps=num_warps)
    return out
