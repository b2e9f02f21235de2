"""Stretches of keys by different programs; a second kernel weighs and adds their results."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_long.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "STRETCH": [2048, 4096],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def stretch_kernel(
    q_ptr, k_ptr, v_ptr, part_ptr, norm_ptr, GROUP, S, scale, STRETCH: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head, heads = tl.program_id(1), tl.num_programs(1)
    m0, first = tl.program_id(0) * BLOCK_M, tl.program_id(2) * STRETCH
    if first >= min(m0 + BLOCK_M, S):  # no key of this stretch is seen
        return
    m = m0 + tl.arange(0, BLOCK_M)
    d, j = tl.arange(0, D), tl.arange(0, BLOCK_N)
    rows = (head * S + m[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + rows, mask=m[:, None] < S, other=0.0)
    k_ptr += head // GROUP * S * D
    v_ptr += head // GROUP * S * D
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)  # rows may see nothing of a stretch
    for start in range(first, min(first + STRETCH, min(m0 + BLOCK_M, S)), BLOCK_N):
        n = start + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(q, k) * scale
        scores = tl.where(n[None, :] <= m[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    part = tl.program_id(2) * heads * S
    tl.store(part_ptr + part * D + rows, acc.to(part_ptr.dtype.element_ty), mask=m[:, None] < S)
    at = norm_ptr + 2 * (part + head * S + m)
    tl.store(at, peak, mask=m < S)
    tl.store(at + 1, total, mask=m < S)


@triton.jit
def join_kernel(
    part_ptr, norm_ptr, out_ptr, S, HS, STRETCH: tl.constexpr,
    D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * S + tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    peak = tl.full((ROWS,), -1e30, dtype=tl.float32)
    for part in range(0, tl.cdiv(min((tl.program_id(0) + 1) * ROWS, S), STRETCH)):
        at = part * HS + row
        # A block of rows that a stretch left out has no sums there.
        seen = (m < S) & (part * STRETCH <= m)
        here = tl.load(norm_ptr + 2 * at, mask=seen, other=-1e30)
        new_peak = tl.maximum(peak, here)
        decay, weight = tl.exp2(peak - new_peak), tl.exp2(here - new_peak)
        total = total * decay + tl.load(norm_ptr + 2 * at + 1, mask=seen, other=0.0) * weight
        found = tl.load(part_ptr + at[:, None] * D + d[None, :], mask=seen[:, None], other=0.0)
        acc = acc * decay[:, None] + found.to(tl.float32) * weight[:, None]
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row[:, None] * D + d[None, :], out, mask=m[:, None] < S)


def valid(params, shape):
    """Tiles fit; the results of stretches stay below 512 MiB."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    parts = -(-shape["S"] // params["STRETCH"])
    room = parts * shape["B"] * shape["H"] * shape["S"] * shape["D"] * 4
    return room <= 1 << 29 and fits(shape, m, n, warps, params["num_stages"])


def kernel(q, k, v, *, STRETCH=4096, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=3):
    B, H, S, D = q.shape
    parts = triton.cdiv(S, STRETCH)
    part = torch.empty((parts, B * H, S, D), dtype=torch.float32, device=q.device)
    norm = torch.empty((parts, B * H, S, 2), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    stretch_kernel[(triton.cdiv(S, BLOCK_M), B * H, parts)](
        q, k, v, part, norm, H // k.shape[1], S, D**-0.5 * 1.4426950408889634, STRETCH,
        D, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    join_kernel[(triton.cdiv(S, 16), B * H)](part, norm, out, S, B * H * S, STRETCH, D, 16)
    return out
