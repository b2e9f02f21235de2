"""A tile a few groups, one scale a tile row; even and odd columns are stored apart."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dequantise.problem import GROUP, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "GROUPS": [1, 2, 4, 8, 16, 32],
    "PROGRAMS": [132, 528, 2112, 1000000],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def dequantise_group_kernel(
    packed_ptr, scale_ptr, out_ptr, groups, GROUP: tl.constexpr,
    GROUPS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    byte = tl.arange(0, GROUP // 2)[None, :]
    stride = tl.num_programs(0) * GROUPS
    for first in tl.range(tl.program_id(0) * GROUPS, groups, stride, num_stages=STAGES):
        group = first + tl.arange(0, GROUPS)[:, None]
        scale = tl.load(scale_ptr + group, mask=group < groups, other=0.0).to(tl.float32)
        shifted = -8.0 * scale
        source = packed_ptr + group * (GROUP // 2) + byte
        packed = tl.load(source, mask=group < groups, other=0)
        low = (packed & 0xF).to(tl.float32) * scale + shifted
        high = (packed >> 4).to(tl.float32) * scale + shifted
        target = out_ptr + group * GROUP + 2 * byte
        tl.store(target, low.to(out_ptr.dtype.element_ty), mask=group < groups)
        tl.store(target + 1, high.to(out_ptr.dtype.element_ty), mask=group < groups)


def valid(params, shape):
    """One to 64 bytes a thread; loads ahead only where programs loop."""
    held = params["GROUPS"] * 64 / (32 * params["num_warps"])
    return 1 <= held <= 64 and (params["STAGES"] == 1 or params["PROGRAMS"] < 1000000)


def kernel(packed, scale, *, GROUPS=8, PROGRAMS=2112, STAGES=1, num_warps=4):
    groups = scale.numel()
    out = torch.empty(
        (packed.shape[0], 2 * packed.shape[1]), dtype=scale.dtype, device=packed.device
    )
    dequantise_group_kernel[(min(PROGRAMS, triton.cdiv(groups, GROUPS)),)](
        packed, scale, out, groups, GROUP, GROUPS, STAGES, num_warps=num_warps
    )
    return out
