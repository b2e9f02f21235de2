"""A band of rows a program; the hidden layer passes block by block and is never written."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_chain.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_H": [16, 32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def fused_kernel(
    x_ptr, up_ptr, down_ptr, out_ptr, M, H,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    x = tl.load(x_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < M, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, H, BLOCK_H):
        h = start + tl.arange(0, BLOCK_H)
        up = tl.load(up_ptr + d[:, None] * H + h[None, :], mask=h[None, :] < H, other=0.0)
        hidden = tl.maximum(tl.dot(x, up), 0.0).to(x.dtype)
        down = tl.load(down_ptr + h[:, None] * D + d[None, :], mask=h[:, None] < H, other=0.0)
        acc = tl.dot(hidden, down, acc)
    at = out_ptr + m[:, None] * D + d[None, :]
    tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=m[:, None] < M)


def valid(params, shape):
    """Rows and weights fit in shared memory, both sums in registers."""
    m, h = params["BLOCK_M"], params["BLOCK_H"]
    shared = (m + 2 * h * params["num_stages"]) * shape["D"] * itemsize(shape)
    held = m * (h + shape["D"]) / (32 * params["num_warps"])
    return shared <= 220 * 1024 and 16 <= held <= 192


def kernel(x, up, down, *, BLOCK_M=64, BLOCK_H=32, num_warps=4, num_stages=2):
    (M, D), H = x.shape, up.shape[1]
    out = torch.empty_like(x)
    fused_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, up, down, out, M, H, D, BLOCK_M, BLOCK_H, num_warps=num_warps, num_stages=num_stages
    )
    return out
