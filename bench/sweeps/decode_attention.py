"""Attention of one new token over a long cache of keys and values, split along the cache."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"H": 128, "S": 4096, "D": 128}, {"H": 32, "S": 16384, "D": 64}]
SPACE = {
    "BLOCK": [16, 32, 64, 128],
    "SPLITS": [1, 2, 4, 8, 16],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def reference(q, k, v):
    return F.scaled_dot_product_attention(q[:, None], k, v)[:, 0]


def inputs(H=128, S=4096, D=128, dtype=torch.bfloat16, device="cuda"):
    q = torch.randn(H, D, dtype=dtype, device=device)
    k, v = (torch.randn(H, S, D, dtype=dtype, device=device) for _ in range(2))
    return q, k, v


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, acc_ptr, total_ptr, peak_ptr, S, LENGTH, scale,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    head, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32) * scale
    acc = tl.zeros((D,), dtype=tl.float32)
    total, peak = 0.0, float("-inf")
    last = min((part + 1) * LENGTH, S)
    for start in range(part * LENGTH, last, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        tile = (head.to(tl.int64) * S + rows[:, None]) * D + d[None, :]
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
    tl.store(total_ptr + place, total)
    tl.store(peak_ptr + place, peak)


@triton.jit
def combine_kernel(acc_ptr, total_ptr, peak_ptr, out_ptr, D: tl.constexpr, PARTS: tl.constexpr):
    head = tl.program_id(0)
    parts, d = tl.arange(0, PARTS), tl.arange(0, D)
    peaks = tl.load(peak_ptr + head * PARTS + parts)
    decay = tl.exp2(peaks - tl.max(peaks, axis=0))
    total = tl.sum(tl.load(total_ptr + head * PARTS + parts) * decay, axis=0)
    acc = tl.load(acc_ptr + (head * PARTS + parts[:, None]) * D + d[None, :])
    out = tl.sum(acc * decay[:, None], axis=0) / total
    tl.store(out_ptr + head * D + d, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Two to 128 elements of a tile a thread."""
    return 2 <= params["BLOCK"] * shape["D"] / (32 * params["num_warps"]) <= 128


def kernel(q, k, v, *, BLOCK=64, SPLITS=4, num_warps=4, num_stages=2):
    H, S, D = k.shape
    acc = torch.empty((H, SPLITS, D), dtype=torch.float32, device=q.device)
    total, peak = torch.empty((2, H, SPLITS), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    scale = D**-0.5 * 1.4426950408889634  # exp(x) = exp2(x log2 e)
    decode_kernel[(H, SPLITS)](
        q, k, v, acc, total, peak, S, triton.cdiv(S, SPLITS), scale, D, BLOCK,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    combine_kernel[(H,)](acc, total, peak, out, D, SPLITS, num_warps=2)
    return out
