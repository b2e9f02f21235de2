"""Log-softmax in three loops through block pointers: peak, sum, difference."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.log_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [64, 128, 256, 512, 1024, 2048, 4096],
    "LANE_SUMS": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def three_loops_kernel(x, out, N, BLOCK_N: tl.constexpr, LANE_SUMS: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    x_blk = tl.make_block_ptr(x + pid * N, (N,), (1,), (0,), (BLOCK_N,), (0,))
    o_blk = tl.make_block_ptr(out + pid * N, (N,), (1,), (0,), (BLOCK_N,), (0,))
    n = tl.arange(0, BLOCK_N)

    p = x_blk
    m = tl.full((BLOCK_N,), float("-inf"), tl.float32) if LANE_SUMS else float("-inf")
    for k in range(0, N, BLOCK_N):
        v = tl.load(p, boundary_check=(0,), padding_option="zero").to(tl.float32)
        v = tl.where(k + n < N, v, float("-inf"))
        m = tl.maximum(m, v if LANE_SUMS else tl.max(v, axis=0))
        p = tl.advance(p, (BLOCK_N,))
    top = tl.max(m, axis=0) if LANE_SUMS else m

    p = x_blk
    s = tl.zeros((BLOCK_N,), tl.float32) if LANE_SUMS else 0.0
    for k in range(0, N, BLOCK_N):
        v = tl.load(p, boundary_check=(0,), padding_option="zero").to(tl.float32)
        e = tl.where(k + n < N, tl.exp(v - top), 0.0)
        s += e if LANE_SUMS else tl.sum(e, axis=0)
        p = tl.advance(p, (BLOCK_N,))
    lse = top + tl.log(tl.sum(s, axis=0) if LANE_SUMS else s)

    for _ in range(0, N, BLOCK_N):
        v = tl.load(x_blk, boundary_check=(0,)).to(tl.float32)
        tl.store(o_blk, (v - lse).to(out.dtype.element_ty), boundary_check=(0,))
        x_blk = tl.advance(x_blk, (BLOCK_N,))
        o_blk = tl.advance(o_blk, (BLOCK_N,))


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than a row."""
    block = params["BLOCK_N"]
    held = block / (32 * params["num_warps"])
    short = shape["N"] <= 512 * block  # a longer loop takes milliseconds
    return short and 1 <= held <= 32 and (block <= 256 or block < 2 * shape["N"])


def kernel(x, *, BLOCK_N=256, LANE_SUMS=False, num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    three_loops_kernel[(M,)](
        x, out, N, BLOCK_N, LANE_SUMS, num_warps=num_warps, num_stages=num_stages
    )
    return out
