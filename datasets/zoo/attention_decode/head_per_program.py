"""One program a query head goes along all its keys; products and sums without tensor cores."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [8, 16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, H, KV, S, scale, D: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    pid = tl.program_id(0)
    base = (pid // H * KV + pid % H // (H // KV)) * S * D
    d = tl.arange(0, D)
    q = tl.load(q_ptr + pid * D + d).to(tl.float32)
    acc = tl.zeros((D,), dtype=tl.float32)
    total, peak = 0.0, float("-inf")
    for start in range(0, S, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        tile = base + rows[:, None] * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=rows[:, None] < S, other=0.0).to(tl.float32)
        scores = tl.sum(k * q[None, :], axis=1) * scale
        scores = tl.where(rows < S, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        weights = tl.exp(scores - new_peak)
        decay = tl.exp(peak - new_peak)
        v = tl.load(v_ptr + tile, mask=rows[:, None] < S, other=0.0).to(tl.float32)
        acc = acc * decay + tl.sum(v * weights[:, None], axis=0)
        total = total * decay + tl.sum(weights, axis=0)
        peak = new_peak
    tl.store(out_ptr + pid * D + d, (acc / total).to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Four to 128 elements of a tile a thread."""
    return 4 <= params["BLOCK"] * shape["D"] / (32 * params["num_warps"]) <= 128


def kernel(q, k, v, *, BLOCK=64, num_warps=4, num_stages=2):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    out = torch.empty_like(q)
    decode_kernel[(B * H,)](
        q, k, v, out, H, KV, S, D**-0.5, D, BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    return out
