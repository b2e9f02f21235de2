"""A program keeps a stretch of the index and strides over rows with it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.index_select_columns.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024],
    "ROWS": [1, 2, 4, 8],
    "PER_SM": [1, 2, 4, 8],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}
SMS = 132


@triton.jit
def select_stride_kernel(
    x_ptr, index_ptr, out_ptr, M, N, K,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    index = tl.load(index_ptr + places, mask=places < K, other=0)
    stride = tl.num_programs(1) * ROWS
    for top in tl.range(tl.program_id(1) * ROWS, M, stride, num_stages=STAGES):
        rows = top + tl.arange(0, ROWS)[:, None]
        inside = (rows < M) & (places < K)
        x = tl.load(x_ptr + rows * N + index, mask=inside, other=0.0)
        tl.store(out_ptr + rows * K + places, x, mask=inside)


def valid(params, shape):
    """One to 32 elements a thread, no stretch far longer than the index."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] < 2 * shape["K"]


def kernel(x, index, *, BLOCK=256, ROWS=2, PER_SM=8, STAGES=1, num_warps=4):
    (M, N), K = x.shape, index.shape[0]
    out = torch.empty((M, K), dtype=x.dtype, device=x.device)
    bands = triton.cdiv(K, BLOCK)
    grid = (bands, min(triton.cdiv(M, ROWS), triton.cdiv(PER_SM * SMS, bands)))
    select_stride_kernel[grid](x, index, out, M, N, K, BLOCK, ROWS, STAGES, num_warps=num_warps)
    return out
