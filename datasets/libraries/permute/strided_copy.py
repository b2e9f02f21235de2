"""Heads before tokens: a copy between strided views, tokens and heads as tiles of the grid."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.permute import problem
from solkit.datasets.zoo.permute.problem import TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "layout"
SHAPES = [problem.SHAPES[place] for place in (0, 1, 2, 5)]
SPACE = {
    "BLOCK_S": [1, 4, 16, 64],
    "BLOCK_H": [1, 2, 8, 32],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def _copy_view(
    src, dst, src_b, src_s, src_h, src_d, dst_b, dst_s, dst_h, dst_d, seq, heads, dim,
    BLOCK_S: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None, None]
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)[None, :, None]
    d = tl.arange(0, BLOCK_D)[None, None, :]
    mask = (s < seq) & (h < heads) & (d < dim)
    x = tl.load(src + batch * src_b + s * src_s + h * src_h + d * src_d, mask=mask)
    tl.store(dst + batch * dst_b + s * dst_s + h * dst_h + d * dst_d, x, mask=mask)


def valid(params, shape):
    tile = params["BLOCK_S"] * params["BLOCK_H"] * triton.next_power_of_2(shape["D"])
    return 1 <= tile / (32 * params["num_warps"]) <= 128


def kernel(x, *, BLOCK_S=4, BLOCK_H=8, num_warps=4):
    b, s, h, d = x.shape
    out = torch.empty(b, h, s, d, dtype=x.dtype, device=x.device)
    view = out.transpose(1, 2)
    _copy_view[(triton.cdiv(s, BLOCK_S), triton.cdiv(h, BLOCK_H), b)](
        x, view, *x.stride(), *view.stride(), s, h, d, BLOCK_S=BLOCK_S, BLOCK_H=BLOCK_H,
        BLOCK_D=triton.next_power_of_2(d), num_warps=num_warps,
    )  # fmt: skip
    return out
