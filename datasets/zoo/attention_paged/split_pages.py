"""Pages of a sequence split among programs, whose parts a second kernel combines; uses tl.dot."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_paged.problem import LOG2_E, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [16, 32, 64, 128],
    "SPLITS": [2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, acc_ptr, lse_ptr, GROUP, WIDTH, scale,
    ROWS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    part, shared, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    parts, KV = tl.num_programs(0), tl.num_programs(1)
    length = tl.load(lengths_ptr + sequence)
    share = tl.cdiv(tl.cdiv(length, parts), BLOCK) * BLOCK  # the last parts may get nothing
    last = tl.minimum((part + 1) * share, length)
    g, d = tl.arange(0, ROWS), tl.arange(0, D)
    head = (sequence * KV + shared) * GROUP + g
    q = tl.load(q_ptr + head[:, None] * D + d[None, :], mask=g[:, None] < GROUP, other=0.0)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    peak = tl.full((ROWS,), -1e30, dtype=tl.float32)
    for start in range(part * share, last, BLOCK):
        token = start + tl.arange(0, BLOCK)
        page = tl.load(table_ptr + sequence * WIDTH + token // PAGE, mask=token < last, other=0)
        row = (page * PAGE + token % PAGE) * KV + shared
        keys = row[None, :] * D + d[:, None]
        values = row[:, None] * D + d[None, :]
        k = tl.load(k_ptr + keys, mask=token[None, :] < last, other=0.0)
        scores = tl.where(token[None, :] < last, tl.dot(q, k) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        v = tl.load(v_ptr + values, mask=token[:, None] < last, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        total = total * decay + tl.sum(weights, axis=1)
        peak = new_peak
    place = head * parts + part
    none = total == 0.0
    acc = acc / tl.where(none, 1.0, total)[:, None]
    tl.store(acc_ptr + place[:, None] * D + d[None, :], acc, mask=g[:, None] < GROUP)
    lse = tl.where(none, float("-inf"), peak + tl.log2(total))
    tl.store(lse_ptr + place, lse, mask=g < GROUP)


@triton.jit
def combine_kernel(acc_ptr, lse_ptr, out_ptr, D: tl.constexpr, PARTS: tl.constexpr):
    place = tl.program_id(0) * PARTS + tl.arange(0, PARTS)
    lse = tl.load(lse_ptr + place)
    share = tl.exp2(lse - tl.max(lse, axis=0))
    acc = tl.load(acc_ptr + place[:, None] * D + tl.arange(0, D)[None, :])
    out = tl.sum(acc * share[:, None], axis=0) / tl.sum(share, axis=0)
    at = out_ptr + tl.program_id(0) * D + tl.arange(0, D)
    tl.store(at, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Tiles fit, and most splits have keys."""
    tile = params["BLOCK"] * shape["D"]
    used = params["SPLITS"] * params["BLOCK"] <= 2 * shape["S"]
    return used and 2 <= tile / (32 * params["num_warps"]) <= 128


def kernel(q, k_pages, v_pages, table, lengths, *, BLOCK=32, SPLITS=8, num_warps=4, num_stages=2):
    B, H, D = q.shape
    PAGE, KV = k_pages.shape[1:3]
    acc = torch.empty((B, H, SPLITS, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, H, SPLITS), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    split_kernel[(SPLITS, KV, B)](
        q, k_pages, v_pages, table, lengths, acc, lse, H // KV, table.shape[1], D**-0.5 * LOG2_E,
        max(16, triton.next_power_of_2(H // KV)), D, PAGE, BLOCK,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    combine_kernel[(B * H,)](acc, lse, out, D, SPLITS, num_warps=2)
    return out
