"""Scores from fp8 products by TMA; values are widened to 16 bits, so that weights keep theirs."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.attention_fp8.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "WIDE": ["float16", "bfloat16"],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def widened_kernel(
    q_tiles, k_tiles, v_tiles, score_scale_ptr, v_scale_ptr, out_ptr, S, WIDE: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    wide: tl.constexpr = tl.float16 if WIDE == "float16" else tl.bfloat16
    m0, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    q = q_tiles.load([head, m0, 0]).reshape(BLOCK_M, D)
    scale = tl.load(score_scale_ptr + head) * (D**-0.5 * 1.4426950408889634)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for n in range(0, S, BLOCK_N):
        k = k_tiles.load([head, n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T) * scale
        scores = tl.where((n + tl.arange(0, BLOCK_N))[None, :] < S, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = v_tiles.load([head, 0, n]).reshape(D, BLOCK_N).to(wide)
        acc = tl.dot(weights.to(wide), v.T, acc * decay[:, None])
        peak = new_peak
    m, d = m0 + tl.arange(0, BLOCK_M), tl.arange(0, D)
    out = acc * (tl.load(v_scale_ptr + head) / total)[:, None]
    rows = (head * S + m[:, None]) * D + d[None, :]
    tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty), mask=m[:, None] < S)


def valid(params, shape):
    """Tiles fit, values once more as widened."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, m, n, warps, params["num_stages"] + 1)


def kernel(
    q, k, v, score_scale, v_scale, dtype, *, BLOCK_M=64, BLOCK_N=64, WIDE="float16",
    num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, S, D = q.shape
    out = torch.empty((B, H, S, D), dtype=dtype, device=q.device)
    widened_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        TensorDescriptor.from_tensor(q.view(B * H, S, D), [1, BLOCK_M, D]),
        TensorDescriptor.from_tensor(k.view(B * H, S, D), [1, BLOCK_N, D]),
        TensorDescriptor.from_tensor(v.view(B * H, D, S), [1, D, BLOCK_N]),
        score_scale, v_scale, out, S, WIDE, D, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
