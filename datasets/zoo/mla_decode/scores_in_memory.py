"""Three launches: scores to memory, their softmax by rows, then the product with the values."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.mla_decode.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_H": [16, 32, 64],
    "BLOCK_S": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "BLOCK_C": [64, 128],
    "num_warps": [4, 8],
}


@triton.jit
def scores_kernel(
    q_ptr, cache_ptr, scores_ptr, H, S, scale,
    WIDTH: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    h = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    s = tl.program_id(1) * BLOCK_S + tl.arange(0, BLOCK_S)
    acc = tl.zeros((BLOCK_H, BLOCK_S), dtype=tl.float32)
    for k0 in range(0, WIDTH, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        q_at, row = (batch * H + h)[:, None] * WIDTH, (batch * S + s)[None, :] * WIDTH
        q_mask, row_mask = (h[:, None] < H) & (k[None, :] < WIDTH), s[None, :] < S
        q = tl.load(q_ptr + q_at + k[None, :], mask=q_mask, other=0.0)
        tile_mask = row_mask & (k[:, None] < WIDTH)
        tile = tl.load(cache_ptr + row + k[:, None], mask=tile_mask, other=0.0)
        acc = tl.dot(q, tile, acc)
    at = (batch * H + h)[:, None] * S + s[None, :]
    tl.store(scores_ptr + at, acc * scale, mask=(h[:, None] < H) & (s[None, :] < S))


@triton.jit
def softmax_kernel(scores_ptr, weights_ptr, S, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        s = start + tl.arange(0, BLOCK)
        x = tl.load(scores_ptr + row * S + s, mask=s < S, other=float("-inf"))
        new_peak = tl.maximum(peak, x)
        total = total * tl.exp2(peak - new_peak) + tl.exp2(x - new_peak)
        peak = new_peak
    top = tl.max(peak, axis=0)
    norm = top + tl.log2(tl.sum(total * tl.exp2(peak - top), axis=0))
    for start in range(0, S, BLOCK):
        s = start + tl.arange(0, BLOCK)
        x = tl.load(scores_ptr + row * S + s, mask=s < S, other=float("-inf"))
        weights = tl.exp2(x - norm).to(weights_ptr.dtype.element_ty)
        tl.store(weights_ptr + row * S + s, weights, mask=s < S)


@triton.jit
def values_kernel(
    weights_ptr, cache_ptr, out_ptr, H, S, WIDTH: tl.constexpr, LATENT: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    h = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_H, BLOCK_C), dtype=tl.float32)
    for start in range(0, S, BLOCK_K):
        s = start + tl.arange(0, BLOCK_K)
        at = (batch * H + h)[:, None] * S + s[None, :]
        mask = (h[:, None] < H) & (s[None, :] < S)
        weights = tl.load(weights_ptr + at, mask=mask, other=0.0)
        row = (batch * S + s)[:, None] * WIDTH
        values = tl.load(cache_ptr + row + c[None, :], mask=s[:, None] < S, other=0.0)
        acc = tl.dot(weights, values, acc)
    at = (batch * H + h)[:, None] * LATENT + c[None, :]
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=h[:, None] < H)


def valid(params, shape):
    """Sums fit in registers; no columns beyond the values, nor twice as many heads as there are."""
    h, s, c = params["BLOCK_H"], params["BLOCK_S"], params["BLOCK_C"]
    held = h * s / (32 * params["num_warps"]), h * c / (32 * params["num_warps"])
    near = h < 2 * shape["H"] and c <= shape["LATENT"]
    return near and min(held) >= 4 and max(held) <= 64


def kernel(q, cache, latent, *, BLOCK_H=16, BLOCK_S=64, BLOCK_K=64, BLOCK_C=128, num_warps=4):
    (B, H, width), S = q.shape, cache.shape[1]
    scores = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
    weights = torch.empty((B, H, S), dtype=q.dtype, device=q.device)
    out = torch.empty((B, H, latent), dtype=q.dtype, device=q.device)
    high = triton.cdiv(H, BLOCK_H)
    scores_kernel[(high, triton.cdiv(S, BLOCK_S), B)](
        q, cache, scores, H, S, width**-0.5 * 1.4426950408889634,
        width, BLOCK_H, BLOCK_S, BLOCK_K, num_warps=num_warps,
    )  # fmt: skip
    softmax_kernel[(B * H,)](scores, weights, S, 1024, num_warps=4)
    values_kernel[(high, triton.cdiv(latent, BLOCK_C), B)](
        weights, cache, out, H, S, width, latent, BLOCK_H, BLOCK_C, BLOCK_K, num_warps=num_warps
    )
    return out
