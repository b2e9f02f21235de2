"""One launch: the first tiles of a row belong to the left matrix, the others to the right one."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.concatenate.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [32, 64, 128, 256, 512, 1024, 2048],
    "LOOP": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def joint_kernel(
    left_ptr, right_ptr, out_ptr, M, N1, N2,
    ROWS: tl.constexpr, COLS: tl.constexpr, LOOP: tl.constexpr,
):  # fmt: skip
    tiles_left = tl.cdiv(N1, COLS)
    tile = tl.program_id(1)
    if tile < tiles_left:
        source, target, N, n = left_ptr, out_ptr, N1, tile * COLS
    else:
        source, target, N, n = right_ptr, out_ptr + N1, N2, (tile - tiles_left) * COLS
    cols = n + tl.arange(0, COLS)[None, :]
    for step in tl.static_range(LOOP):
        rows = (tl.program_id(0) * LOOP + step) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (rows < M) & (cols < N)
        x = tl.load(source + rows * N + cols, mask=inside)
        tl.store(target + rows * (N1 + N2) + cols, x, mask=inside)


def valid(params, shape):
    """One to 32 elements a thread; tiles not far larger than the wider matrix."""
    rows, cols = params["ROWS"], params["COLS"]
    fits = rows * params["LOOP"] <= shape["M"] and cols < 2 * max(shape["N1"], shape["N2"])
    return fits and 1 <= rows * cols / (32 * params["num_warps"]) <= 32


def kernel(left, right, *, ROWS=4, COLS=64, LOOP=1, num_warps=2):
    M, N1, N2 = *left.shape, right.shape[1]
    out = torch.empty((M, N1 + N2), dtype=left.dtype, device=left.device)
    grid = (triton.cdiv(M, ROWS * LOOP), triton.cdiv(N1, COLS) + triton.cdiv(N2, COLS))
    joint_kernel[grid](left, right, out, M, N1, N2, ROWS, COLS, LOOP, num_warps=num_warps)
    return out
