"""A fixed number of programs takes tiles in turn through block pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.elementwise_chain.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 4, 16, 32],
    "BLOCK": [32, 64, 128, 256],
    "PER_SM": [1, 2, 4, 8],
    "num_warps": [1, 2, 4, 8],
}
SMS = 132


@triton.jit
def chain(x, gain, shift):
    t = tl.clamp(x * gain + shift, -3.0, 3.0)
    t = tl.sqrt(t * t + 0.5)
    u = tl.where(t > 1.0, t - 0.25 * x, t + 0.25 * x)
    u = tl.maximum(tl.abs(u), 0.125 * gain)
    return u / (1.0 + u)


@triton.jit
def chain_persistent_kernel(
    x_ptr, gain_ptr, shift_ptr, out_ptr, M, N, tiles, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    across = tl.cdiv(N, BLOCK)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        top, left = tile // across * ROWS, tile % across * BLOCK
        x_tile = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (top, left), (ROWS, BLOCK), (1, 0))
        y_tile = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (top, left), (ROWS, BLOCK), (1, 0))
        gains = tl.make_block_ptr(gain_ptr, (N,), (1,), (left,), (BLOCK,), (0,))
        shifts = tl.make_block_ptr(shift_ptr, (M,), (1,), (top,), (ROWS,), (0,))
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        gain = tl.load(gains, boundary_check=(0,), padding_option="zero").to(tl.float32)
        shift = tl.load(shifts, boundary_check=(0,), padding_option="zero").to(tl.float32)
        y = chain(x, gain[None, :], shift[:, None])
        tl.store(y_tile, y.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """One to 64 elements a thread, and at most 3000 tiles a program."""
    tile = params["ROWS"] * params["BLOCK"]
    steps = shape["M"] * shape["N"] / (tile * params["PER_SM"] * SMS)
    return 1 <= tile / (32 * params["num_warps"]) <= 64 and steps <= 3000


def kernel(x, gain, shift, *, ROWS=4, BLOCK=256, PER_SM=4, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    tiles = triton.cdiv(M, ROWS) * triton.cdiv(N, BLOCK)
    chain_persistent_kernel[(min(tiles, PER_SM * SMS),)](
        x, gain, shift, out, M, N, tiles, ROWS, BLOCK, num_warps=num_warps
    )
    return out
