"""Goes through all keys and hides those that are not there, in the manner of a dense mask."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_cross.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "SKIP": [False, True],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def masked_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, out_ptr, H, Q, S, scale, SKIP: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m0, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    length = tl.load(lengths_ptr + head // H)
    at = head * S * D
    q_block = tl.make_block_ptr(q_ptr + head * Q * D, (Q, D), (D, 1), (m0, 0), (BLOCK_M, D), (1, 0))
    k_block = tl.make_block_ptr(k_ptr + at, (D, S), (1, D), (0, 0), (D, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(v_ptr + at, (S, D), (D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    for start in range(0, S, BLOCK_N):
        if not SKIP or start < length:
            k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
            hidden = tl.where(start + tl.arange(0, BLOCK_N) < length, 0.0, -1e30)
            scores = tl.dot(q, k) * scale + hidden[None, :]
            new_peak = tl.maximum(peak, tl.max(scores, axis=1))
            weights = tl.exp2(scores - new_peak[:, None])
            decay = tl.exp2(peak - new_peak)
            total = total * decay + tl.sum(weights, axis=1)
            v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
            acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
            peak = new_peak
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    m, d = m0 + tl.arange(0, BLOCK_M), tl.arange(0, D)
    rows = (head * Q + m[:, None]) * D + d[None, :]
    tl.store(out_ptr + rows, out, mask=m[:, None] < Q)


def valid(params, shape):
    """Tiles fit."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, m, n, warps, params["num_stages"])


def kernel(
    q, k, v, lengths, *, BLOCK_M=32, BLOCK_N=64, SKIP=False, num_warps=4, num_stages=2
):  # fmt: skip
    B, H, Q, D = q.shape
    out = torch.empty_like(q)
    masked_kernel[(triton.cdiv(Q, BLOCK_M), B * H)](
        q, k, v, lengths, out, H, Q, k.shape[2], D**-0.5 * 1.4426950408889634, SKIP,
        D, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
