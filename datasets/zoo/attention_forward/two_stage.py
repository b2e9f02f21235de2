"""Two loops: blocks of keys that every row sees without a mask, then those on the diagonal."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "LONGEST_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def attend(
    acc, total, peak, q, k_ptr, v_ptr, rows, first, last, S, scale,
    D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Fold the keys from `first` to `last` into the running sum, its weights and their peak."""
    d = tl.arange(0, D)
    for start in range(first, last, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        offsets = cols[:, None] * D + d[None, :]
        if MASKED:
            k = tl.load(k_ptr + offsets, mask=cols[:, None] < S, other=0.0)
            v = tl.load(v_ptr + offsets, mask=cols[:, None] < S, other=0.0)
        else:
            k = tl.load(k_ptr + offsets)
            v = tl.load(v_ptr + offsets)
        scores = tl.dot(q, tl.trans(k))
        if MASKED and CAUSAL:
            # Keys beyond S lie right of the diagonal of every row below S.
            scores = tl.where(rows[:, None] >= cols[None, :], scores, float("-inf"))
        elif MASKED:
            scores = tl.where(cols[None, :] < S, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    return acc, total, peak


@triton.jit
def two_stage_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, GROUP, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    LONGEST_FIRST: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    if LONGEST_FIRST:  # the tail is then made of short programs
        block = tl.num_programs(0) - 1 - block
    row0 = block * BLOCK_M
    head = tl.program_id(1)
    k_ptr += head // GROUP * S * D
    v_ptr += head // GROUP * S * D
    rows = row0 + tl.arange(0, BLOCK_M)
    offsets = head * S * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + offsets, mask=rows[:, None] < S, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    full = (row0 if CAUSAL else S) // BLOCK_N * BLOCK_N
    end = min(row0 + BLOCK_M, S) if CAUSAL else S
    acc, total, peak = attend(
        acc, total, peak, q, k_ptr, v_ptr, rows, 0, full, S, scale, D, BLOCK_N, False, CAUSAL
    )
    acc, total, peak = attend(
        acc, total, peak, q, k_ptr, v_ptr, rows, full, end, S, scale, D, BLOCK_N, True, CAUSAL
    )
    out = (acc * (1.0 / total)[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + offsets, out, mask=rows[:, None] < S)


def valid(params, shape):
    """The order of programs matters to causal attention alone."""
    if params["LONGEST_FIRST"] and not shape["causal"]:
        return False
    return fits(
        shape, params["BLOCK_M"], params["BLOCK_N"], params["num_warps"], params["num_stages"]
    )


def kernel(
    q, k, v, causal, *, BLOCK_M=128, BLOCK_N=64, LONGEST_FIRST=False, num_warps=8, num_stages=2
):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    two_stage_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, H // k.shape[1], S, D**-0.5 * 1.4426950408889634, D, causal,
        BLOCK_M, BLOCK_N, LONGEST_FIRST, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
