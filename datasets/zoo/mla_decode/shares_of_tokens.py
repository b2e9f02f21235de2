"""Blocks of heads by shares of tokens; a tile of the cache serves as keys and as values."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.mla_decode.problem import SHAPES, TOLERANCE, inputs, item_bytes, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "SHARES": [1, 4, 16],
    "BLOCK_H": [16, 32, 64],
    "BLOCK_S": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2],
}


@triton.jit
def share_kernel(
    q_ptr, cache_ptr, part_ptr, norm_ptr, H, S, scale, SHARES: tl.constexpr,
    LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    WIDTH: tl.constexpr = LATENT + ROPE
    batch, share = tl.program_id(1), tl.program_id(2)
    h = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    c, r = tl.arange(0, LATENT), LATENT + tl.arange(0, ROPE)
    q_row = (batch * H + h)[:, None] * WIDTH
    q = tl.load(q_ptr + q_row + c[None, :], mask=h[:, None] < H, other=0.0)
    q_rope = tl.load(q_ptr + q_row + r[None, :], mask=h[:, None] < H, other=0.0)
    each = tl.cdiv(tl.cdiv(S, BLOCK_S), SHARES) * BLOCK_S
    acc = tl.zeros((BLOCK_H, LATENT), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    peak = tl.full((BLOCK_H,), -1e30, dtype=tl.float32)
    for start in range(share * each, min(share * each + each, S), BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        row = (batch * S + s)[:, None] * WIDTH
        tile = tl.load(cache_ptr + row + c[None, :], mask=s[:, None] < S, other=0.0)
        rope = tl.load(cache_ptr + row + r[None, :], mask=s[:, None] < S, other=0.0)
        scores = tl.dot(q_rope, rope.T, tl.dot(q, tile.T)) * scale
        scores = tl.where(s[None, :] < S, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(tile.dtype), tile, acc * decay[:, None])
        peak = new_peak
    at = (batch * H + h) * SHARES + share
    tl.store(part_ptr + at[:, None] * LATENT + c[None, :], acc, mask=h[:, None] < H)
    tl.store(norm_ptr + 2 * at, peak, mask=h < H)
    tl.store(norm_ptr + 2 * at + 1, total, mask=h < H)


@triton.jit
def join_kernel(part_ptr, norm_ptr, out_ptr, SHARES: tl.constexpr, LATENT: tl.constexpr):
    share, c = tl.arange(0, SHARES), tl.arange(0, LATENT)
    at = tl.program_id(0) * SHARES + share
    peak = tl.load(norm_ptr + 2 * at)
    weight = tl.exp2(peak - tl.max(peak, axis=0))
    total = tl.sum(tl.load(norm_ptr + 2 * at + 1) * weight, axis=0)
    part = tl.load(part_ptr + at[:, None] * LATENT + c[None, :])
    out = tl.sum(part * weight[:, None], axis=0) / total
    tl.store(out_ptr + tl.program_id(0) * LATENT + c, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Queries and tiles fit in shared memory, the sums in registers; no more heads than twice."""
    h, s = params["BLOCK_H"], params["BLOCK_S"]
    width = shape["LATENT"] + shape["ROPE"]
    shared = (h + s * params["num_stages"]) * width * item_bytes(shape)
    held = h * (shape["LATENT"] + s) / (32 * params["num_warps"])
    return h < 2 * shape["H"] and shared <= 220 * 1024 and held <= 160


def kernel(
    q, cache, latent, *, SHARES=4, BLOCK_H=16, BLOCK_S=32, num_warps=4, num_stages=2
):  # fmt: skip
    (B, H, width), S = q.shape, cache.shape[1]
    part = torch.empty((B * H, SHARES, latent), dtype=torch.float32, device=q.device)
    norm = torch.empty((B * H, SHARES, 2), dtype=torch.float32, device=q.device)
    out = torch.empty((B, H, latent), dtype=q.dtype, device=q.device)
    share_kernel[(triton.cdiv(H, BLOCK_H), B, SHARES)](
        q, cache, part, norm, H, S, width**-0.5 * 1.4426950408889634, SHARES,
        latent, width - latent, BLOCK_H, BLOCK_S, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    join_kernel[(B * H,)](part, norm, out, SHARES, latent, num_warps=4)
    return out
