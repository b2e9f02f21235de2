"""A program a head of keys, read once; its few query heads multiply them without tensor cores."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [4, 8, 16, 32],
    "SPLITS": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def broadcast_kernel(
    q_ptr, k_ptr, v_ptr, acc_ptr, peak_ptr, total_ptr, GROUP, S, scale,
    GROUP_2: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    shared, part = tl.program_id(0), tl.program_id(1)
    g, d = tl.arange(0, GROUP_2), tl.arange(0, D)
    head = shared * GROUP + g
    own = g < GROUP
    q = tl.load(q_ptr + head[:, None] * D + d[None, :], mask=own[:, None], other=0.0)
    q = q.to(tl.float32) * scale
    acc = tl.zeros((GROUP_2, D), dtype=tl.float32)
    total = tl.zeros((GROUP_2,), dtype=tl.float32)
    peak = tl.full((GROUP_2,), float("-inf"), dtype=tl.float32)
    for start in range(part * BLOCK, S, SPLITS * BLOCK):
        rows = start + tl.arange(0, BLOCK)
        tile = (shared * S + rows[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=rows[:, None] < S, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + tile, mask=rows[:, None] < S, other=0.0).to(tl.float32)
        scores = tl.sum(q[:, None, :] * k[None, :, :], axis=2)
        scores = tl.where(rows[None, :] < S, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        acc = acc * decay[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], axis=1)
        total = total * decay + tl.sum(weights, axis=1)
        peak = new_peak
    place = head * SPLITS + part
    tl.store(acc_ptr + place[:, None] * D + d[None, :], acc, mask=own[:, None])
    tl.store(peak_ptr + place, peak, mask=own)
    tl.store(total_ptr + place, total, mask=own)


@triton.jit
def merge_kernel(
    acc_ptr, peak_ptr, total_ptr, out_ptr, D: tl.constexpr, SPLITS: tl.constexpr
):  # fmt: skip
    place = tl.program_id(0) * SPLITS + tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    peaks = tl.load(peak_ptr + place)
    decay = tl.exp2(peaks - tl.max(peaks, axis=0))
    total = tl.sum(tl.load(total_ptr + place) * decay, axis=0)
    acc = tl.load(acc_ptr + place[:, None] * D + d[None, :])
    out = tl.sum(acc * decay[:, None], axis=0) / total
    tl.store(out_ptr + tl.program_id(0) * D + d, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Two to 128 products of queries and keys a thread; keys for every split."""
    heads = triton.next_power_of_2(shape["H"] // shape["KV"])
    products = heads * params["BLOCK"] * shape["D"] / (32 * params["num_warps"])
    return 2 <= products <= 128 and params["SPLITS"] * params["BLOCK"] <= shape["S"]


def kernel(q, k, v, *, BLOCK=8, SPLITS=8, num_warps=4, num_stages=2):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    acc = torch.empty((B * H, SPLITS, D), dtype=torch.float32, device=q.device)
    peak, total = torch.empty((2, B * H, SPLITS), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    broadcast_kernel[(B * KV, SPLITS)](
        q, k, v, acc, peak, total, H // KV, S, D**-0.5 * 1.4426950408889634,
        triton.next_power_of_2(H // KV), D, BLOCK, SPLITS,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    merge_kernel[(B * H,)](acc, peak, total, out, D, SPLITS, num_warps=2)
    return out
