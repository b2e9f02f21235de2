"""Log-softmax by programs that stay, a share of neighbouring rows each, in tiles of rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.log_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056],
    "ROWS": [1, 2, 4, 8],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3],
}


@triton.jit
def persistent_kernel(
    x_ptr, out_ptr, M, N, tiles, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    STORE_CACHE: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)[None, :]
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=mask, other=-1e30).to(tl.float32)
        peak = tl.max(x, axis=1)[:, None]
        lse = peak + tl.log(tl.sum(tl.exp(x - peak), axis=1)[:, None])
        out = (x - lse).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + rows * N + cols, out, mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, work for every program, stages that shared memory holds."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    held = tile / (32 * params["num_warps"])
    busy = params["PROGRAMS"] * params["ROWS"] <= max(shape["M"], 132)
    fits = 4 * tile * params["num_stages"] <= 227 * 1024
    return busy and fits and tile <= 16384 and 1 <= held <= 64


def kernel(x, *, PROGRAMS=132, ROWS=1, STORE_CACHE="", num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    tiles = triton.cdiv(M, ROWS)
    persistent_kernel[(min(PROGRAMS, tiles),)](
        x, out, M, N, tiles, ROWS, triton.next_power_of_2(N), STORE_CACHE,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
