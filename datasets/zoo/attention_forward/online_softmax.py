"""The textbook form: online softmax over blocks of keys, plain pointers, a mask on every block."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, H, KV, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    own = (batch * H + head) * S * D
    shared = (batch * KV + head // (H // KV)) * S * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    offsets = own + rows[:, None] * D + d[None, :]
    q = tl.load(q_ptr + offsets, mask=rows[:, None] < S, other=0.0)

    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    end = min((tl.program_id(0) + 1) * BLOCK_M, S) if CAUSAL else S
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        tile = shared + cols[:, None] * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=cols[:, None] < S, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        seen = cols[None, :] < S
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_peak[:, None])
        decay = tl.exp(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + tile, mask=cols[:, None] < S, other=0.0)
        acc = acc * decay[:, None] + tl.dot(weights.to(v.dtype), v)
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + offsets, out, mask=rows[:, None] < S)


def valid(params, shape):
    return fits(
        shape, params["BLOCK_M"], params["BLOCK_N"], params["num_warps"], params["num_stages"]
    )


def kernel(q, k, v, causal, *, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    attention_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, H, k.shape[1], S, D**-0.5, D, causal, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
