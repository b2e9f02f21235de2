"""One long vector: the bias by the remainder of an element's place; several blocks a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bias_activation.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "BLOCKS": [1, 2, 4, 8, 16],
    "INTERLEAVED": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def bias_relu2_flat_kernel(
    x_ptr, bias_ptr, out_ptr, n, N,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    pid, programs = tl.program_id(0), tl.num_programs(0)
    for k in tl.static_range(BLOCKS):
        block = pid + k * programs if INTERLEAVED else pid * BLOCKS + k
        i = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        y = x + tl.load(bias_ptr + i % N, mask=i < n, other=0.0).to(tl.float32)
        y = tl.where(y > 0, y * y, 0.0)
        tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 32 elements a thread; with one block there is nothing to interleave."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and (params["BLOCKS"] > 1 or params["INTERLEAVED"])


def kernel(x, bias, *, BLOCK=1024, BLOCKS=1, INTERLEAVED=True, num_warps=4):
    n = x.numel()
    out = torch.empty_like(x)
    bias_relu2_flat_kernel[(triton.cdiv(n, BLOCK * BLOCKS),)](
        x, bias, out, n, x.shape[1], BLOCK, BLOCKS, INTERLEAVED, num_warps=num_warps
    )
    return out
