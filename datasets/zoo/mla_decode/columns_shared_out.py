"""Programs make all scores of their heads, but only a band of the value's columns each."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.mla_decode.problem import SHAPES, TOLERANCE, inputs, item_bytes, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BANDS": [1, 2, 4],
    "BLOCK_H": [16, 32, 64],
    "BLOCK_S": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2],
}


@triton.jit
def band_kernel(
    q_ptr, cache_ptr, out_ptr, H, S, scale, BANDS: tl.constexpr,
    LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    WIDTH: tl.constexpr = LATENT + ROPE
    WIDE: tl.constexpr = LATENT // BANDS
    band, batch = tl.program_id(0) % BANDS, tl.program_id(1)
    h = tl.program_id(0) // BANDS * BLOCK_H + tl.arange(0, BLOCK_H)
    c, r = tl.arange(0, LATENT), LATENT + tl.arange(0, ROPE)
    own = band * WIDE + tl.arange(0, WIDE)
    q_row = (batch * H + h)[:, None] * WIDTH
    q = tl.load(q_ptr + q_row + c[None, :], mask=h[:, None] < H, other=0.0)
    q_rope = tl.load(q_ptr + q_row + r[None, :], mask=h[:, None] < H, other=0.0)
    acc = tl.zeros((BLOCK_H, WIDE), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    peak = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        row = (batch * S + s) * WIDTH
        inside = s < S
        keys = tl.load(cache_ptr + row[None, :] + c[:, None], mask=inside[None, :], other=0.0)
        rope = tl.load(cache_ptr + row[None, :] + r[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(q, keys)
        scores = tl.dot(q_rope, rope, scores) * scale
        scores = tl.where(inside[None, :], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        values = tl.load(cache_ptr + row[:, None] + own[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(weights.to(values.dtype), values, acc * decay[:, None])
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    at = (batch * H + h)[:, None] * LATENT + own[None, :]
    tl.store(out_ptr + at, out, mask=h[:, None] < H)


def valid(params, shape):
    """Queries, keys and values fit in shared memory, the sums in registers."""
    h, s = params["BLOCK_H"], params["BLOCK_S"]
    width, wide = shape["LATENT"] + shape["ROPE"], shape["LATENT"] // params["BANDS"]
    shared = (h * width + s * params["num_stages"] * (width + wide)) * item_bytes(shape)
    held = h * (wide + s) / (32 * params["num_warps"])
    return h < 2 * shape["H"] and shared <= 220 * 1024 and held <= 160


def kernel(
    q, cache, latent, *, BANDS=2, BLOCK_H=16, BLOCK_S=32, num_warps=4, num_stages=2
):  # fmt: skip
    (B, H, width), S = q.shape, cache.shape[1]
    out = torch.empty((B, H, latent), dtype=q.dtype, device=q.device)
    band_kernel[(triton.cdiv(H, BLOCK_H) * BANDS, B)](
        q, cache, out, H, S, width**-0.5 * 1.4426950408889634, BANDS,
        latent, width - latent, BLOCK_H, BLOCK_S, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
