"""Bit by bit from the top: how many values lie below decides; rows are read again each time."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantile_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "KEEP": [False, True],
    "num_warps": [2, 4, 8, 16],
}


@triton.jit
def ordered(x):
    """Integers from 0 up in the order of the floats."""
    bits = x.to(tl.float32).to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ -1, bits ^ -2147483648)
    return bits.to(tl.uint32, bitcast=True)


@triton.jit
def bit_kernel(x_ptr, out_ptr, N, k, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    x_ptr += tl.program_id(0).to(tl.int64) * N
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < N, other=float("inf"))
    kept = ordered(x)
    found = tl.zeros((), dtype=tl.uint32)
    for bit in range(32):
        tried = found | (tl.full((), 0x80000000, tl.uint32) >> bit)
        if KEEP:
            below = tl.sum(((kept < tried) & (i < N)).to(tl.int32), axis=0)
        else:
            hits = tl.zeros((BLOCK,), dtype=tl.int32)
            for start in range(0, N, BLOCK):
                inside = start + i < N
                x = tl.load(x_ptr + start + i, mask=inside, other=float("inf"))
                hits += ((ordered(x) < tried) & inside).to(tl.int32)
            below = tl.sum(hits, axis=0)
        found = tl.where(below < k, tried, found)
    bits = found.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ -2147483648, bits ^ -1)
    x = bits.to(tl.float32, bitcast=True)
    tl.store(out_ptr + tl.program_id(0), x.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Four to 64 elements a thread; a row is kept where a block holds it."""
    block, N = params["BLOCK"], shape["N"]
    each = block / (32 * params["num_warps"])
    fits = N <= block < 2 * N or block == 512 > N if params["KEEP"] else block < 2 * N
    return 4 <= each <= 64 and fits


def kernel(x, k, *, BLOCK=512, KEEP=False, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    bit_kernel[(M,)](x, out, N, k, BLOCK, KEEP, num_warps=num_warps)
    return out
