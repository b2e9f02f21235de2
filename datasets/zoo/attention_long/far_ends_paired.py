"""A program takes a block of rows from the start and one from the end: all work equally long."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_long.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "FAR_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def attend(
    q_ptr, k_ptr, v_ptr, out_ptr, block, S, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d, j = tl.arange(0, D), tl.arange(0, BLOCK_N)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in range(0, min((block + 1) * BLOCK_M, S), BLOCK_N):
        n = start + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(q, k) * scale
        scores = tl.where(n[None, :] <= m[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + m[:, None] * D + d[None, :], out, mask=m[:, None] < S)


@triton.jit
def paired_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, GROUP, S, scale, FAR_FIRST: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    q_ptr += head * S * D
    out_ptr += head * S * D
    k_ptr += head // GROUP * S * D
    v_ptr += head // GROUP * S * D
    blocks = tl.cdiv(S, BLOCK_M)
    near = tl.program_id(0)
    far = blocks - 1 - near
    first, second = (far, near) if FAR_FIRST else (near, far)
    attend(q_ptr, k_ptr, v_ptr, out_ptr, first, S, scale, D, BLOCK_M, BLOCK_N)
    if near != far:  # the middle of an odd number of blocks has no partner
        attend(q_ptr, k_ptr, v_ptr, out_ptr, second, S, scale, D, BLOCK_M, BLOCK_N)


def valid(params, shape):
    """Tiles fit."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, m, n, warps, params["num_stages"])


def kernel(q, k, v, *, BLOCK_M=64, BLOCK_N=64, FAR_FIRST=True, num_warps=4, num_stages=3):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    pairs = triton.cdiv(triton.cdiv(S, BLOCK_M), 2)
    paired_kernel[(pairs, B * H)](
        q, k, v, out, H // k.shape[1], S, D**-0.5 * 1.4426950408889634, FAR_FIRST,
        D, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
