"""Log-sum-exp of whole rows that registers hold, one or several a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.logsumexp.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "EXP2": [True, False],
    "LOAD_EVICT": ["", "evict_first"],
    "LOAD_CACHE": ["", ".cg"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_rows_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, EXP2: tl.constexpr,
    LOAD_EVICT: tl.constexpr, LOAD_CACHE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(
        x_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :], mask=mask, other=-1e30,
        eviction_policy=LOAD_EVICT, cache_modifier=LOAD_CACHE,
    ).to(tl.float32)  # fmt: skip
    if EXP2:
        x *= 1.4426950408889634
        peak = tl.max(x, axis=1)
        out = (peak + tl.log2(tl.sum(tl.exp2(x - peak[:, None]), axis=1))) * 0.6931471805599453
    else:
        peak = tl.max(x, axis=1)
        out = peak + tl.log(tl.sum(tl.exp(x - peak[:, None]), axis=1))
    tl.store(out_ptr + rows, out, mask=rows < M)


def valid(params, shape):
    """One to 64 values a thread."""
    block = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 8192 and 1 <= held <= 64


def kernel(x, *, ROWS=1, EXP2=True, LOAD_EVICT="", LOAD_CACHE="", num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    whole_rows_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, triton.next_power_of_2(N), EXP2, LOAD_EVICT, LOAD_CACHE,
        num_warps=num_warps,
    )  # fmt: skip
    return out
