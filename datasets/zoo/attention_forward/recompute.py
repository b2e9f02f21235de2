"""Two sweeps over the keys: the first finds each row's peak and sum, the second adds up values.

Scores are computed twice, but the accumulator is never rescaled.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "TRANSPOSED": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def masked_scores(
    q, k_ptr, rows, start, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_N: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    cols = start + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    if TRANSPOSED:
        k = tl.load(k_ptr + cols[None, :] * D + d[:, None], mask=cols[None, :] < S, other=0.0)
    else:
        k = tl.load(k_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0).T
    seen = cols[None, :] < S
    if CAUSAL:
        seen = seen & (cols[None, :] <= rows[:, None])
    return tl.where(seen, tl.dot(q, k) * scale, float("-inf"))


@triton.jit
def two_sweeps_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, GROUP, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):  # fmt: skip
    head, block = tl.program_id(0), tl.program_id(1)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    mine = (head * S + rows[:, None]) * D + d[None, :]
    k_ptr += head // GROUP * S * D
    v_ptr += head // GROUP * S * D
    q = tl.load(q_ptr + mine, mask=rows[:, None] < S, other=0.0)
    end = min((block + 1) * BLOCK_M, S) if CAUSAL else S

    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        scores = masked_scores(q, k_ptr, rows, start, S, scale, D, CAUSAL, BLOCK_N, TRANSPOSED)
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        added = tl.sum(tl.exp2(scores - new_peak[:, None]), axis=1)
        total = total * tl.exp2(peak - new_peak) + added
        peak = new_peak

    shift = peak + tl.log2(total)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        scores = masked_scores(q, k_ptr, rows, start, S, scale, D, CAUSAL, BLOCK_N, TRANSPOSED)
        j = start + tl.arange(0, BLOCK_N)
        v = tl.load(v_ptr + j[:, None] * D + d[None, :], mask=j[:, None] < S, other=0.0)
        acc = tl.dot(tl.exp2(scores - shift[:, None]).to(v.dtype), v, acc)
    tl.store(out_ptr + mine, acc.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


def valid(params, shape):
    return fits(
        shape, params["BLOCK_M"], params["BLOCK_N"], params["num_warps"], params["num_stages"]
    )


def kernel(q, k, v, causal, *, BLOCK_M=64, BLOCK_N=64, TRANSPOSED=False, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    two_sweeps_kernel[(B * H, triton.cdiv(S, BLOCK_M))](
        q, k, v, out, H // k.shape[1], S, D**-0.5 * 1.4426950408889634, D, causal,
        BLOCK_M, BLOCK_N, TRANSPOSED, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
