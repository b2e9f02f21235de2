"""RMS normalisation of rows held as a tuple of chunks in their own dtype."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNKS": [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16],
    "KEEP_FP32": [False, True],
    "REVERSED": [False, True],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def held_chunks_kernel(
    x_ptr, weight_ptr, out_ptr, N, eps, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    KEEP_FP32: tl.constexpr, REVERSED: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, CHUNK)
    row = tl.program_id(0).to(tl.int64) * N
    squares = tl.zeros((CHUNK,), dtype=tl.float32)
    held = ()
    for i in tl.static_range(CHUNKS):
        x = tl.load(x_ptr + row + i * CHUNK + lanes, mask=i * CHUNK + lanes < N, other=0.0)
        squares += x.to(tl.float32) * x.to(tl.float32)
        held += (x.to(tl.float32) if KEEP_FP32 else x,)
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for i in tl.static_range(CHUNKS):
        # What was read last is in registers just as well: the order only moves stores.
        cols = (CHUNKS - 1 - i if REVERSED else i) * CHUNK + lanes
        weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = held[CHUNKS - 1 - i if REVERSED else i].to(tl.float32) * scale * weight
        tl.store(out_ptr + row + cols, out.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """At most 64 values a thread, rows that registers hold, no chunk without columns."""
    chunk = triton.next_power_of_2(triton.cdiv(shape["N"], params["CHUNKS"]))
    threads = 32 * params["num_warps"]
    padded = chunk * params["CHUNKS"]
    return (
        shape["N"] <= 8192
        and padded - chunk < shape["N"]
        and chunk >= threads
        and padded / threads <= 64
    )


def kernel(x, weight, *, CHUNKS=2, KEEP_FP32=False, REVERSED=False, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    chunk = triton.next_power_of_2(triton.cdiv(N, CHUNKS))
    held_chunks_kernel[(M,)](
        x, weight, out, N, EPS, chunk, CHUNKS, KEEP_FP32, REVERSED, num_warps=num_warps
    )
    return out
