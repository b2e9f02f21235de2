"""TMA tiles no wider than a block of w, so that a step has one scale of w; persistent programs."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_fp8_blockwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "PROGRAMS_PER_SM": [1, 2],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "BY_COLUMN": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
SMS = 132  # of an H100 SXM or H200


@triton.jit
def one_scale_kernel(
    x_tiles, w_tiles, out_tiles, x_scale_ptr, w_scale_ptr, M, N, K, BY_COLUMN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    high, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    blocks = K // 128
    for tile in range(tl.program_id(0), high * wide, tl.num_programs(0)):
        m0 = (tile % high if BY_COLUMN else tile // wide) * BLOCK_M
        n0 = (tile // high if BY_COLUMN else tile % wide) * BLOCK_N
        m = m0 + tl.arange(0, BLOCK_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for block in range(blocks):
            product = tl.dot(x_tiles.load([m0, block * 128]), w_tiles.load([n0, block * 128]).T)
            scale = tl.load(x_scale_ptr + m * blocks + block, mask=m < M, other=0.0)
            scale *= tl.load(w_scale_ptr + n0 // 128 * blocks + block)
            acc += product * scale[:, None]
        out_tiles.store([m0, n0], acc.to(out_tiles.dtype))


def valid(params, shape):
    """Rows of the result start at multiples of 16 bytes; everything fits."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    shared = params["num_stages"] * (m + n) * 128 + 2 * m * n
    fits = shared * params["PROGRAMS_PER_SM"] <= 227 * 1024
    held = m * n / (32 * params["num_warps"])
    return shape["N"] % 8 == 0 and m < 2 * shape["M"] and fits and 8 <= held <= 64


def kernel(
    x, w, x_scale, w_scale, dtype, *, PROGRAMS_PER_SM=1, BLOCK_M=64, BLOCK_N=128,
    BY_COLUMN=True, num_warps=4, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    one_scale_kernel[(min(SMS * PROGRAMS_PER_SM, tiles),)](
        TensorDescriptor.from_tensor(x, [BLOCK_M, 128]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, 128]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        x_scale, w_scale, M, N, K, BY_COLUMN, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
