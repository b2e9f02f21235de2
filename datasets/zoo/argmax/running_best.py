"""Row by row in chunks: each chunk's best replaces the best so far."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.argmax.problem import SHAPES, inputs, reference

__all__ = ["SHAPES", "SPACE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def argmax_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    best = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((ROWS,), dtype=tl.int32)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * N + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=float("-inf"))
        found, where = tl.max(x, axis=1, return_indices=True)
        place = tl.where(found > best, start + where, place)
        best = tl.maximum(found, best)
    tl.store(out_ptr + rows, place.to(tl.int64), mask=rows < M)


def valid(params, shape):
    """One to 64 elements a thread, chunks ahead that fit, no chunk far longer than a row."""
    tile = params["ROWS"] * params["BLOCK"]
    fits = params["STAGES"] * tile * 4 <= 200 * 1024 and params["BLOCK"] < 2 * shape["N"]
    return 1 <= tile / (32 * params["num_warps"]) <= 64 and fits


def kernel(x, *, ROWS=1, BLOCK=512, STAGES=1, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.int64, device=x.device)
    argmax_kernel[(triton.cdiv(M, ROWS),)](x, out, M, N, ROWS, BLOCK, STAGES, num_warps=num_warps)
    return out
