"""Four products a tile of rows, with bands of the tables that lie ready in shared memory."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dft_small.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def four_kernel(
    re_ptr, im_ptr, cos_ptr, sin_ptr, out_re_ptr, out_im_ptr, M,
    L: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, L)
    inside = m[:, None] < M
    re = tl.load(re_ptr + m[:, None] * L + k[None, :], mask=inside, other=0.0)
    im = tl.load(im_ptr + m[:, None] * L + k[None, :], mask=inside, other=0.0)
    for start in range(0, L, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        cos = tl.load(cos_ptr + k[:, None] * L + n[None, :])
        sin = tl.load(sin_ptr + k[:, None] * L + n[None, :])
        out_re = tl.dot(im, sin, tl.dot(re, cos))
        out_im = tl.dot(im, cos) - tl.dot(re, sin)
        at = m[:, None] * L + n[None, :]
        tl.store(out_re_ptr + at, out_re.to(out_re_ptr.dtype.element_ty), mask=inside)
        tl.store(out_im_ptr + at, out_im.to(out_im_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Rows and bands of tables fit in shared memory, the results in registers."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    shared = (2 * m + 2 * n * params["num_stages"]) * shape["L"] * itemsize(shape)
    held = 3 * m * n / (32 * params["num_warps"])
    return n <= shape["L"] and shared <= 200 * 1024 and 4 <= held <= 128


def kernel(
    real, imaginary, cosines, sines, *, BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=2
):  # fmt: skip
    M, L = real.shape
    out_re, out_im = torch.empty_like(real), torch.empty_like(imaginary)
    four_kernel[(triton.cdiv(M, BLOCK_M),)](
        real, imaginary, cosines, sines, out_re, out_im, M, L, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out_re, out_im
