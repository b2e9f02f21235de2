"""Whole rows are read in order and columns gathered on the chip, so that no line is read twice."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.index_select_columns.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [32, 64, 128, 256, 512],
    "WALK": [1, 2, 4, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def select_on_chip_kernel(
    x_ptr, index_ptr, out_ptr, M, N, K,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, WALK: tl.constexpr, LENGTH: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, LENGTH)[None, :]
    for step in range(WALK):
        rows = (tl.program_id(0) * WALK + step) * ROWS + tl.arange(0, ROWS)[:, None]
        x = tl.load(x_ptr + rows * N + cols, mask=(rows < M) & (cols < N), other=0.0)
        for start in range(0, K, BLOCK):
            places = start + tl.arange(0, BLOCK)[None, :]
            index = tl.load(index_ptr + places, mask=places < K, other=0)
            y = tl.gather(x, tl.broadcast_to(index, (ROWS, BLOCK)), axis=1)
            tl.store(out_ptr + rows * K + places, y, mask=(rows < M) & (places < K))


def valid(params, shape):
    """One to 64 elements a thread, and short rows: gathers from long ones compile for minutes."""
    length = 1 << (shape["N"] - 1).bit_length()
    threads = 32 * params["num_warps"]
    row = params["ROWS"] * length / threads
    block = params["ROWS"] * params["BLOCK"] / threads
    a_warp = max(1, params["ROWS"] // params["num_warps"])
    small = length**2 * params["BLOCK"] * a_warp <= 1 << 26 and params["BLOCK"] < 2 * shape["K"]
    return small and 1 <= row <= 64 and 1 <= block <= 64


def kernel(x, index, *, ROWS=2, BLOCK=64, WALK=1, num_warps=4):
    (M, N), K = x.shape, index.shape[0]
    out = torch.empty((M, K), dtype=x.dtype, device=x.device)
    select_on_chip_kernel[(triton.cdiv(M, ROWS * WALK),)](
        x, index, out, M, N, K, ROWS, BLOCK, WALK, triton.next_power_of_2(N), num_warps=num_warps
    )
    return out
