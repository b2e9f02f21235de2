"""Over the output: every element reads its byte, shifts and scales; neighbours share the byte."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dequantise.problem import GROUP, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "BLOCKS": [1, 2, 4, 8],
    "SHIFT_BY_TABLE": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def dequantise_flat_kernel(
    packed_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, SHIFT_BY_TABLE: tl.constexpr,
):  # fmt: skip
    for block in tl.static_range(BLOCKS):
        # rows hold whole groups, so a place in the matrix gives byte and group at once
        i = (tl.program_id(0) * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        packed = tl.load(packed_ptr + i // 2, mask=i < n, other=0).to(tl.int32)
        scale = tl.load(scale_ptr + i // GROUP, mask=i < n, other=0.0).to(tl.float32)
        if SHIFT_BY_TABLE:
            code = tl.where(i % 2 == 0, packed & 15, packed // 16)
        else:
            code = (packed >> (4 * (i & 1))) & 15
        y = (code - 8).to(tl.float32) * scale
        tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(packed, scale, *, BLOCK=1024, BLOCKS=1, SHIFT_BY_TABLE=False, num_warps=4):
    n = 2 * packed.numel()
    out = torch.empty(
        (packed.shape[0], 2 * packed.shape[1]), dtype=scale.dtype, device=packed.device
    )
    dequantise_flat_kernel[(triton.cdiv(n, BLOCK * BLOCKS),)](
        packed, scale, out, n, GROUP, BLOCK, BLOCKS, SHIFT_BY_TABLE, num_warps=num_warps
    )
    return out
