"""Two launches over pages: a score a token to memory, then softmax and values, columns split."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_paged.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_S": [16, 32, 64],
    "BLOCK_V": [32, 64, 128],
    "COLUMNS": [16, 32, 64],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, table_ptr, lengths_ptr, scores_ptr, H, KV, WIDTH, LONGEST, scale,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(2), tl.program_id(1)
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = token < tl.load(lengths_ptr + sequence)
    d = tl.arange(0, D)
    page = tl.load(table_ptr + sequence * WIDTH + token // PAGE, mask=inside, other=0)
    row = (page * PAGE + token % PAGE) * KV + head // (H // KV)
    k = tl.load(k_ptr + row[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
    q = tl.load(q_ptr + (sequence * H + head) * D + d)
    score = tl.sum(k.to(tl.float32) * q.to(tl.float32)[None, :], axis=1) * scale
    tl.store(scores_ptr + (sequence * H + head) * LONGEST + token, score, mask=inside)


@triton.jit
def values_kernel(
    scores_ptr, v_ptr, table_ptr, lengths_ptr, out_ptr, H, KV, WIDTH, LONGEST,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(2), tl.program_id(1)
    cols = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    length = tl.load(lengths_ptr + sequence)
    scores_ptr += (sequence * H + head) * LONGEST
    tops = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tops = tl.maximum(tops, tl.load(scores_ptr + i, mask=i < length, other=float("-inf")))
    peak = tl.max(tops, axis=0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    acc = tl.zeros((BLOCK, COLUMNS), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        weights = tl.exp(tl.load(scores_ptr + i, mask=i < length, other=float("-inf")) - peak)
        page = tl.load(table_ptr + sequence * WIDTH + i // PAGE, mask=i < length, other=0)
        row = (page * PAGE + i % PAGE) * KV + head // (H // KV)
        at = row[:, None] * D + cols[None, :]
        v = tl.load(v_ptr + at, mask=(i < length)[:, None], other=0.0)
        acc += weights[:, None] * v.to(tl.float32)
        total += weights
    out = tl.sum(acc, axis=0) / tl.sum(total, axis=0)
    at = out_ptr + (sequence * H + head) * D + cols
    tl.store(at, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Two to 128 elements of each tile a thread."""
    threads = 32 * params["num_warps"]
    tiles = params["BLOCK_S"] * shape["D"], params["BLOCK_V"] * params["COLUMNS"]
    return all(2 <= tile / threads <= 128 for tile in tiles)


def kernel(
    q, k_pages, v_pages, table, lengths, *,
    BLOCK_S=32, BLOCK_V=64, COLUMNS=32, num_warps=4, num_stages=3,
):  # fmt: skip
    B, H, D = q.shape
    PAGE, KV = k_pages.shape[1:3]
    width = table.shape[1]
    longest = width * PAGE
    scores = torch.empty((B * H, longest), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    scores_kernel[(triton.cdiv(longest, BLOCK_S), H, B)](
        q, k_pages, table, lengths, scores, H, KV, width, longest, D**-0.5, D, PAGE, BLOCK_S,
        num_warps=num_warps,
    )  # fmt: skip
    values_kernel[(D // COLUMNS, H, B)](
        scores, v_pages, table, lengths, out, H, KV, width, longest, D, PAGE, BLOCK_V, COLUMNS,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
