"""Split keys, one launch: a counter tells the last program of a head to combine all parts."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [16, 32, 64, 128],
    "SPLITS": [2, 4, 8, 16, 32],
    "INTERLEAVED": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def one_launch_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, parts_ptr, peak_ptr, total_ptr, count_ptr, GROUP, S, scale,
    D: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    part, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32) * scale
    if INTERLEAVED:  # parts take blocks by turns
        first, last, step = part * BLOCK, S, SPLITS * BLOCK
    else:
        length = tl.cdiv(S, SPLITS)
        first, last, step = part * length, min(part * length + length, S), BLOCK
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)  # each row of a tile keeps its own
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    acc = tl.zeros((BLOCK, D), dtype=tl.float32)
    for start in range(first, last, step):
        rows = start + tl.arange(0, BLOCK)
        inside = rows[:, None] < last
        tile = (head // GROUP * S + rows[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + tile, mask=inside, other=0.0).to(tl.float32)
        scores = tl.where(rows < last, tl.sum(k * q[None, :], axis=1), float("-inf"))
        new_peak = tl.maximum(peak, scores)
        weights, decay = tl.exp2(scores - new_peak), tl.exp2(peak - new_peak)
        acc = acc * decay[:, None] + v * weights[:, None]
        total = total * decay + weights
        peak = new_peak
    top = tl.max(peak, axis=0)
    decay = tl.exp2(peak - top)
    place = head * SPLITS + part
    tl.store(parts_ptr + place * D + d, tl.sum(acc * decay[:, None], axis=0))
    tl.store(peak_ptr + place, top)
    tl.store(total_ptr + place, tl.sum(total * decay, axis=0))

    tl.debug_barrier()  # the whole program has stored before its arrival is counted
    if tl.atomic_add(count_ptr + head, 1, sem="acq_rel") == SPLITS - 1:
        every = head * SPLITS + tl.arange(0, SPLITS)
        peaks = tl.load(peak_ptr + every, cache_modifier=".cg")
        decays = tl.exp2(peaks - tl.max(peaks, axis=0))
        norm = tl.sum(tl.load(total_ptr + every, cache_modifier=".cg") * decays, axis=0)
        parts = tl.load(parts_ptr + every[:, None] * D + d[None, :], cache_modifier=".cg")
        out = tl.sum(parts * decays[:, None], axis=0) / norm
        tl.store(out_ptr + head * D + d, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Four to 64 elements of a tile, and of the parts, a thread; keys for every split."""
    threads, splits, block = 32 * params["num_warps"], params["SPLITS"], params["BLOCK"]
    used = splits * block if params["INTERLEAVED"] else splits * 2
    fits = 4 <= block * shape["D"] / threads <= 64 and splits * shape["D"] / threads <= 128
    return fits and used <= shape["S"]


def kernel(q, k, v, *, BLOCK=16, SPLITS=8, INTERLEAVED=False, num_warps=4):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    parts = torch.empty((B * H, SPLITS, D), dtype=torch.float32, device=q.device)
    peak, total = torch.empty((2, B * H, SPLITS), dtype=torch.float32, device=q.device)
    count = torch.zeros(B * H, dtype=torch.int32, device=q.device)
    out = torch.empty_like(q)
    one_launch_kernel[(SPLITS, B * H)](
        q, k, v, out, parts, peak, total, count, H // KV, S, D**-0.5 * 1.4426950408889634,
        D, BLOCK, SPLITS, INTERLEAVED, num_warps=num_warps,
    )  # fmt: skip
    return out
