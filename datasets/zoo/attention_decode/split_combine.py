"""Keys split among programs that leave partial sums, which a second kernel combines (no dot)."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [16, 32, 64, 128],
    "SPLITS": [2, 4, 8, 16, 32],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def part_kernel(
    q_ptr, k_ptr, v_ptr, acc_ptr, norm_ptr, GROUP, S, LENGTH, scale,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32) * scale
    acc = tl.zeros((D,), dtype=tl.float32)
    total, peak = 0.0, float("-inf")
    first = part * LENGTH
    last = min(first + LENGTH, S)
    for start in range(first, last, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        tile = (head // GROUP * S + rows[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=rows[:, None] < last, other=0.0).to(tl.float32)
        scores = tl.where(rows < last, tl.sum(k * q[None, :], axis=1), float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        weights = tl.exp2(scores - new_peak)
        decay = tl.exp2(peak - new_peak)
        v = tl.load(v_ptr + tile, mask=rows[:, None] < last, other=0.0).to(tl.float32)
        acc = acc * decay + tl.sum(v * weights[:, None], axis=0)
        total = total * decay + tl.sum(weights, axis=0)
        peak = new_peak
    place = head * parts + part
    tl.store(acc_ptr + place * D + d, acc)
    tl.store(norm_ptr + place * 2, peak)
    tl.store(norm_ptr + place * 2 + 1, total)


@triton.jit
def combine_kernel(acc_ptr, norm_ptr, out_ptr, D: tl.constexpr, PARTS: tl.constexpr):
    head = tl.program_id(0)
    parts, d = tl.arange(0, PARTS), tl.arange(0, D)
    place = head * PARTS + parts
    peaks = tl.load(norm_ptr + place * 2)
    decay = tl.exp2(peaks - tl.max(peaks, axis=0))
    total = tl.sum(tl.load(norm_ptr + place * 2 + 1) * decay, axis=0)
    acc = tl.load(acc_ptr + place[:, None] * D + d[None, :])
    out = tl.sum(acc * decay[:, None], axis=0) / total
    tl.store(out_ptr + head * D + d, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Four to 128 elements of a tile a thread, and keys for every split."""
    splits, length = params["SPLITS"], -(-shape["S"] // params["SPLITS"])
    fits = 4 <= params["BLOCK"] * shape["D"] / (32 * params["num_warps"]) <= 128
    return fits and (splits - 1) * length < shape["S"]


def kernel(q, k, v, *, BLOCK=32, SPLITS=8, num_warps=4, num_stages=2):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    acc = torch.empty((B * H, SPLITS, D), dtype=torch.float32, device=q.device)
    norm = torch.empty((B * H, SPLITS, 2), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    part_kernel[(B * H, SPLITS)](
        q, k, v, acc, norm, H // KV, S, triton.cdiv(S, SPLITS), D**-0.5 * 1.4426950408889634,
        D, BLOCK, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    combine_kernel[(B * H,)](acc, norm, out, D, SPLITS, num_warps=2)
    return out
