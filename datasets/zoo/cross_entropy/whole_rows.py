"""Cross-entropy of vocabularies that registers hold, one row or several a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "EXP2": [True, False],
    "FIND_TARGET": ["gather", "compare"],
    "LOAD_EVICT": ["", "evict_first"],
    "LOAD_CACHE": ["", ".cg"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_rows_kernel(
    logits_ptr, targets_ptr, loss_ptr, T, V, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    EXP2: tl.constexpr, GATHER: tl.constexpr, LOAD_EVICT: tl.constexpr, LOAD_CACHE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)[None, :]
    first = rows.to(tl.int64) * V
    alive = rows < T
    target = tl.load(targets_ptr + rows, mask=alive, other=0)
    inside = alive[:, None] & (cols < V)
    # A finite filler: rows beyond T give no NaN.
    x = tl.load(
        logits_ptr + first[:, None] + cols, mask=inside, other=-1e30,
        eviction_policy=LOAD_EVICT, cache_modifier=LOAD_CACHE,
    ).to(tl.float32)  # fmt: skip
    peak = tl.max(x, axis=1)
    if EXP2:
        weights = tl.exp2((x - peak[:, None]) * 1.4426950408889634)
    else:
        weights = tl.exp(x - peak[:, None])
    log_sum = tl.log(tl.sum(weights, axis=1)) + peak
    if GATHER:
        chosen = tl.load(logits_ptr + first + target, mask=alive, other=0.0).to(tl.float32)
    else:
        chosen = tl.sum(tl.where(cols == target[:, None], x, 0.0), axis=1)
    tl.store(loss_ptr + rows, log_sum - chosen, mask=alive)


def valid(params, shape):
    """One to 64 values a thread."""
    block = triton.next_power_of_2(shape["V"])
    held = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 16384 and 1 <= held <= 64


def kernel(
    logits, targets, *, ROWS=1, EXP2=True, FIND_TARGET="gather", LOAD_EVICT="", LOAD_CACHE="",
    num_warps=8,
):  # fmt: skip
    T, V = logits.shape
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    whole_rows_kernel[(triton.cdiv(T, ROWS),)](
        logits, targets, loss, T, V, ROWS, triton.next_power_of_2(V), EXP2,
        FIND_TARGET == "gather", LOAD_EVICT, LOAD_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return loss
