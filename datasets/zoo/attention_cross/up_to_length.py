"""A block of queries a program, which stops where the keys of its batch end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_cross.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BATCH_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def length_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, out_ptr, H, Q, S, scale, BATCH_FIRST: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0 if BATCH_FIRST else 1)
    m = tl.program_id(1 if BATCH_FIRST else 0) * BLOCK_M + tl.arange(0, BLOCK_M)
    length = tl.load(lengths_ptr + head // H)
    d, j = tl.arange(0, D), tl.arange(0, BLOCK_N)
    rows = (head * Q + m[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + rows, mask=m[:, None] < Q, other=0.0)
    k_ptr += head * S * D
    v_ptr += head * S * D
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        n = start + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < length, other=0.0)
        scores = tl.where(n[None, :] < length, tl.dot(q, k) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < length, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + rows, out, mask=m[:, None] < Q)


def valid(params, shape):
    """Tiles fit."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, m, n, warps, params["num_stages"])


def kernel(
    q, k, v, lengths, *, BLOCK_M=32, BLOCK_N=64, BATCH_FIRST=False, num_warps=4, num_stages=2
):  # fmt: skip
    B, H, Q, D = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(Q, BLOCK_M), B * H)
    length_kernel[grid[::-1] if BATCH_FIRST else grid](
        q, k, v, lengths, out, H, Q, k.shape[2], D**-0.5 * 1.4426950408889634, BATCH_FIRST,
        D, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
