"""The keys of a batch shared out equally among SHARES programs, whose results a kernel joins."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_cross.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "SHARES": [2, 4, 8],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def share_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, part_ptr, norm_ptr, H, Q, S, scale, SHARES: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head, share = tl.program_id(2), tl.program_id(1)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    length = tl.load(lengths_ptr + head // H)
    each = tl.cdiv(tl.cdiv(length, BLOCK_N), SHARES) * BLOCK_N
    d, j = tl.arange(0, D), tl.arange(0, BLOCK_N)
    q_at = (head * Q + m[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + q_at, mask=m[:, None] < Q, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)  # a share may be empty
    for start in range(share * each, min(share * each + each, length), BLOCK_N):
        n = start + j
        at = (head * S + n[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=n[:, None] < length, other=0.0)
        scores = tl.where(n[None, :] < length, tl.dot(q, k.T) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + at, mask=n[:, None] < length, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    row = (head * Q + m) * SHARES + share
    tl.store(part_ptr + row[:, None] * D + d[None, :], acc, mask=m[:, None] < Q)
    tl.store(norm_ptr + 2 * row, peak, mask=m < Q)
    tl.store(norm_ptr + 2 * row + 1, total, mask=m < Q)


@triton.jit
def join_kernel(part_ptr, norm_ptr, out_ptr, SHARES: tl.constexpr, D: tl.constexpr):
    share, d = tl.arange(0, SHARES), tl.arange(0, D)
    row = tl.program_id(0) * SHARES + share
    peak = tl.load(norm_ptr + 2 * row)
    weight = tl.exp2(peak - tl.max(peak, axis=0))
    total = tl.sum(tl.load(norm_ptr + 2 * row + 1) * weight, axis=0)
    part = tl.load(part_ptr + row[:, None] * D + d[None, :])
    out = tl.sum(part * weight[:, None], axis=0) / total
    tl.store(out_ptr + tl.program_id(0) * D + d, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Tiles fit; results of shares take at most 512 MiB."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    room = 4 * params["SHARES"] * shape["B"] * shape["H"] * shape["Q"] * shape["D"]
    return room <= 1 << 29 and fits(shape, m, n, warps, params["num_stages"])


def kernel(q, k, v, lengths, *, SHARES=2, BLOCK_M=32, BLOCK_N=64, num_warps=4, num_stages=2):
    B, H, Q, D = q.shape
    part = torch.empty((B * H * Q, SHARES, D), dtype=torch.float32, device=q.device)
    norm = torch.empty((B * H * Q, SHARES, 2), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    share_kernel[(triton.cdiv(Q, BLOCK_M), SHARES, B * H)](
        q, k, v, lengths, part, norm, H, Q, k.shape[2], D**-0.5 * 1.4426950408889634, SHARES,
        D, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    join_kernel[(B * H * Q,)](part, norm, out, SHARES, D, num_warps=1)
    return out
