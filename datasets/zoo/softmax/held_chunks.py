"""Softmax of a row held as a tuple of chunks in its own dtype, so that little of it is padding."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "IN_EXPONENT": [False, True],
    "KEEP_FP32": [False, True],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def held_chunks_kernel(
    x_ptr, y_ptr, N, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, IN_EXPONENT: tl.constexpr,
    KEEP_FP32: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    x_ptr += tl.program_id(0).to(tl.int64) * N
    y_ptr += tl.program_id(0).to(tl.int64) * N
    held = ()
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=float("-inf"))
        held += (x.to(tl.float32) if KEEP_FP32 else x,)

    top = held[0].to(tl.float32)  # lane by lane, so that there is one reduction and not CHUNKS
    for i in tl.static_range(1, CHUNKS):
        top = tl.maximum(top, held[i].to(tl.float32))
    peak = tl.max(top, axis=0)
    weights = tl.zeros((CHUNK,), dtype=tl.float32)
    for i in tl.static_range(CHUNKS):
        weights += tl.exp(held[i].to(tl.float32) - peak)
    total = tl.sum(weights, axis=0)
    shift = peak + tl.log(total) if IN_EXPONENT else peak
    scale = 1.0 if IN_EXPONENT else 1.0 / total
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        y = tl.exp(held[i].to(tl.float32) - shift) * scale
        tl.store(
            y_ptr + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N, cache_modifier=STORE_CACHE
        )


def valid(params, shape):
    """Two to 24 chunks, one to 64 values a thread; of rows that neither are short nor spill."""
    chunks = triton.cdiv(shape["N"], params["CHUNK"])
    threads = 32 * params["num_warps"]
    held = chunks * params["CHUNK"] / threads
    fitting = 512 < shape["N"] <= 8192
    return fitting and 2 <= chunks <= 24 and params["CHUNK"] >= threads and held <= 64


def kernel(x, *, CHUNK=512, IN_EXPONENT=False, KEEP_FP32=False, STORE_CACHE="", num_warps=8):
    M, N = x.shape
    y = torch.empty_like(x)
    held_chunks_kernel[(M,)](
        x,
        y,
        N,
        CHUNK,
        triton.cdiv(N, CHUNK),
        IN_EXPONENT,
        KEEP_FP32,
        STORE_CACHE,
        num_warps=num_warps,
    )
    return y
