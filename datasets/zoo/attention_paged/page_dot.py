"""A page a step; the group of heads that shares keys is the M of tl.dot, padded to 16 rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_paged.problem import LOG2_E, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "PAGES": [1, 2, 4, 8],
    "LOOK_AHEAD": [False, True],
    "EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def page_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, out_ptr, WIDTH, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    PAGES: tl.constexpr, LOOK_AHEAD: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    shared, sequence, KV = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    g, d = tl.arange(0, ROWS), tl.arange(0, D)
    mine = ((sequence * KV + shared) * GROUP + g[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + mine, mask=g[:, None] < GROUP, other=0.0)
    length = tl.load(lengths_ptr + sequence)
    table_ptr += sequence * WIDTH
    within = tl.arange(0, PAGES * PAGE)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    peak = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    number = within // PAGE
    page = tl.load(table_ptr + number, mask=number < WIDTH, other=0)
    for start in range(0, length, PAGES * PAGE):
        if not LOOK_AHEAD:
            number = (start + within) // PAGE
            page = tl.load(table_ptr + number, mask=number < WIDTH, other=0)
        inside = start + within < length
        row = (page * PAGE + within % PAGE) * KV + shared
        tile = row[:, None] * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=inside[:, None], other=0.0, eviction_policy=EVICT)
        v = tl.load(v_ptr + tile, mask=inside[:, None], other=0.0, eviction_policy=EVICT)
        if LOOK_AHEAD:  # the next step's pages
            number = (start + PAGES * PAGE + within) // PAGE
            page = tl.load(table_ptr + number, mask=number < WIDTH, other=0)
        scores = tl.where(inside[None, :], tl.dot(q, k.T) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        total = total * decay + tl.sum(weights, axis=1)
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + mine, out, mask=g[:, None] < GROUP)


def valid(params, shape):
    """Tiles of keys and values fit in shared memory and are no longer than the sequence."""
    rows = params["PAGES"] * shape["PAGE"]
    tile = rows * shape["D"]
    fits = 2 * params["num_stages"] * tile * 2 <= 220 * 1024 and rows <= shape["S"]
    return fits and 2 <= tile / (32 * params["num_warps"]) <= 256


def kernel(
    q, k_pages, v_pages, table, lengths, *,
    PAGES=1, LOOK_AHEAD=False, EVICT="", num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, D = q.shape
    PAGE, KV = k_pages.shape[1:3]
    group = H // KV
    out = torch.empty_like(q)
    page_kernel[(KV, B)](
        q, k_pages, v_pages, table, lengths, out, table.shape[1], D**-0.5 * LOG2_E,
        group, max(16, triton.next_power_of_2(group)), D, PAGE, PAGES, LOOK_AHEAD, EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
