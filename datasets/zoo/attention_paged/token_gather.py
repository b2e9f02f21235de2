"""A head a program; tiles cross pages freely, each token's page is looked up; no tensor cores."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_paged.problem import LOG2_E, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [8, 16, 32, 64, 128],
    "EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def gather_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, out_ptr, H, KV, WIDTH, scale,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(0), tl.program_id(1)
    mine = (sequence * H + head) * D + tl.arange(0, D)
    q = tl.load(q_ptr + mine).to(tl.float32) * scale
    length = tl.load(lengths_ptr + sequence)
    acc = tl.zeros((D,), dtype=tl.float32)
    total, peak = 0.0, float("-inf")
    for start in range(0, length, BLOCK):
        token = start + tl.arange(0, BLOCK)
        inside = token < length
        page = tl.load(table_ptr + sequence * WIDTH + token // PAGE, mask=inside, other=0)
        row = (page * PAGE + token % PAGE) * KV + head // (H // KV)
        tile = row[:, None] * D + tl.arange(0, D)[None, :]
        k = tl.load(k_ptr + tile, mask=inside[:, None], other=0.0, eviction_policy=EVICT)
        v = tl.load(v_ptr + tile, mask=inside[:, None], other=0.0, eviction_policy=EVICT)
        scores = tl.sum(k.to(tl.float32) * q[None, :], axis=1)
        scores = tl.where(inside, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        weights = tl.exp2(scores - new_peak)
        decay = tl.exp2(peak - new_peak)
        acc = acc * decay + tl.sum(weights[:, None] * v.to(tl.float32), axis=0)
        total = total * decay + tl.sum(weights, axis=0)
        peak = new_peak
    tl.store(out_ptr + mine, (acc / total).to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Four to 128 elements of a tile a thread."""
    return 4 <= params["BLOCK"] * shape["D"] / (32 * params["num_warps"]) <= 128


def kernel(q, k_pages, v_pages, table, lengths, *, BLOCK=32, EVICT="", num_warps=4, num_stages=2):
    B, H, D = q.shape
    PAGE, KV = k_pages.shape[1:3]
    out = torch.empty_like(q)
    gather_kernel[(H, B)](
        q, k_pages, v_pages, table, lengths, out, H, KV, table.shape[1], D**-0.5 * LOG2_E,
        D, PAGE, BLOCK, EVICT, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
