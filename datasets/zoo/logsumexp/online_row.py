"""Log-sum-exp in one loop over the row, the running pair kept a scalar or one of each lane."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.logsumexp.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "STATE": ["scalar", "lanes"],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 4],
}


@triton.jit
def online_kernel(
    x_ptr, out_ptr, N, BLOCK: tl.constexpr, LANES: tl.constexpr, UNROLL: tl.constexpr
):
    row = tl.program_id(0)
    x_ptr += row.to(tl.int64) * N
    peak = tl.full((BLOCK,), -1e30, tl.float32) if LANES else -1e30
    total = tl.zeros((BLOCK,), tl.float32) if LANES else 0.0
    for start in tl.range(0, N, BLOCK, loop_unroll_factor=UNROLL):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, x if LANES else tl.max(x, axis=0))
        weights = tl.exp(x - higher)
        total = total * tl.exp(peak - higher) + (weights if LANES else tl.sum(weights, axis=0))
        peak = higher
    if LANES:
        top = tl.max(peak, axis=0)
        total = tl.sum(total * tl.exp(peak - top), axis=0)
        peak = top
    tl.store(out_ptr + row, peak + tl.log(total))


def valid(params, shape):
    """One to 32 values a thread; no block far longer than a row, no more copies than blocks."""
    block = params["BLOCK"]
    near = block <= 512 or block < 2 * shape["N"]
    unrolls = params["UNROLL"] == 1 or params["UNROLL"] * block < 2 * shape["N"]
    short = shape["N"] <= 2048 * block  # a longer loop takes milliseconds
    return short and near and unrolls and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK=512, STATE="lanes", UNROLL=1, num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    online_kernel[(M,)](
        x, out, N, BLOCK, STATE == "lanes", UNROLL, num_warps=num_warps, num_stages=num_stages
    )
    return out
