"""Both products in fp8: weights, times 256 lest they vanish, are rounded on the way to values."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_fp8.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "HEADS_LAST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def fp8_kernel(
    q_ptr, k_ptr, v_ptr, score_scale_ptr, v_scale_ptr, out_ptr, S, HEADS_LAST: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1 if HEADS_LAST else 0)
    m = tl.program_id(0 if HEADS_LAST else 1) * BLOCK_M + tl.arange(0, BLOCK_M)
    d, j = tl.arange(0, D), tl.arange(0, BLOCK_N)
    rows = (head * S + m[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + rows, mask=m[:, None] < S, other=0.0)
    scale = tl.load(score_scale_ptr + head) * (D**-0.5 * 1.4426950408889634)
    k_ptr += head * S * D
    v_ptr += head * S * D
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BLOCK_N):
        n = start + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(q, k) * scale
        scores = tl.where(n[None, :] < S, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None] + 8.0)
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + d[None, :] * S + n[:, None], mask=n[:, None] < S, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    out = acc * (tl.load(v_scale_ptr + head) / total)[:, None]
    tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty), mask=m[:, None] < S)


def valid(params, shape):
    """Tiles fit."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, m, n, warps, params["num_stages"])


def kernel(
    q, k, v, score_scale, v_scale, dtype, *, BLOCK_M=64, BLOCK_N=64, HEADS_LAST=True,
    num_warps=4, num_stages=3,
):  # fmt: skip
    B, H, S, D = q.shape
    out = torch.empty((B, H, S, D), dtype=dtype, device=q.device)
    grid = (triton.cdiv(S, BLOCK_M), B * H)
    fp8_kernel[grid if HEADS_LAST else grid[::-1]](
        q, k, v, score_scale, v_scale, out, S, HEADS_LAST, D, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
