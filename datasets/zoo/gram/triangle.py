"""Only tiles on or under the diagonal, counted in one row; each is stored twice, once turned."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gram.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128],
    "BLOCK_K": [16, 32, 64, 128],
    "SKIP_DIAGONAL": [False, True],  # the second store of a tile on the diagonal changes nothing
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def triangle_kernel(
    x_ptr, out_ptr, M, K,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, SKIP_DIAGONAL: tl.constexpr,
):  # fmt: skip
    # Row r of the triangle starts at r (r + 1) / 2; the root is rounded, so it is put right.
    pid = tl.program_id(0)
    row = ((tl.sqrt(8.0 * pid + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > pid, row - 1, row)
    row = tl.where((row + 1) * (row + 2) // 2 <= pid, row + 1, row)
    column = pid - row * (row + 1) // 2
    i = row * BLOCK + tl.arange(0, BLOCK)
    j = column * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    i_ptrs = x_ptr + i[:, None] * K + k[None, :]
    j_ptrs = x_ptr + j[:, None] * K + k[None, :]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k[None, :] < K - k0
        upper = tl.load(i_ptrs, mask=(i[:, None] < M) & inside, other=0.0)
        lower = tl.load(j_ptrs, mask=(j[:, None] < M) & inside, other=0.0)
        acc = tl.dot(upper, tl.trans(lower), acc)
        i_ptrs += BLOCK_K
        j_ptrs += BLOCK_K
    out = acc.to(out_ptr.dtype.element_ty)
    inside = (i[:, None] < M) & (j[None, :] < M)
    tl.store(out_ptr + i[:, None] * M + j[None, :], out, mask=inside)
    if not SKIP_DIAGONAL or row != column:
        inside = (j[:, None] < M) & (i[None, :] < M)
        tl.store(out_ptr + j[:, None] * M + i[None, :], tl.trans(out), mask=inside)


def valid(params, shape):
    """The pipelined tiles and the turned one fit in shared memory, the sums in registers."""
    m, k = params["BLOCK"], params["BLOCK_K"]
    shared = (params["num_stages"] * 2 * m * k + m * m) * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= m * m / (32 * params["num_warps"]) <= 128


def kernel(x, *, BLOCK=64, BLOCK_K=64, SKIP_DIAGONAL=True, num_warps=4, num_stages=3):
    M, K = x.shape
    out = torch.empty((M, M), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK)
    triangle_kernel[(tiles * (tiles + 1) // 2,)](
        x, out, M, K, BLOCK, BLOCK_K, SKIP_DIAGONAL, num_warps=num_warps, num_stages=num_stages
    )
    return out
