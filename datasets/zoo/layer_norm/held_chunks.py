"""Layer normalisation of a row held as a tuple of chunks: little padding, one read."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [128, 256, 512, 1024, 2048],
    "KEEP_FP32": [False, True],
    "CENTRED": [False, True],
    "WEIGHT_CACHE": ["", ".ca", ".cg"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def held_chunks_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, N, eps, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    KEEP_FP32: tl.constexpr, CENTRED: tl.constexpr, WEIGHT_CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * N
    held = ()
    total = tl.zeros((CHUNK,), dtype=tl.float32)
    squares = tl.zeros((CHUNK,), dtype=tl.float32)
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=0.0)
        wide = x.to(tl.float32)
        held += (wide if KEEP_FP32 else x,)
        total += wide
        if not CENTRED:
            squares += wide * wide
    mean = tl.sum(total, axis=0) / N
    if CENTRED:
        for i in tl.static_range(CHUNKS):
            far = held[i].to(tl.float32) - mean
            squares += tl.where(i * CHUNK + tl.arange(0, CHUNK) < N, far * far, 0.0)
    variance = tl.sum(squares, axis=0) / N
    if not CENTRED:
        variance -= mean * mean
    rstd = tl.rsqrt(variance + eps)
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        w = tl.load(w_ptr + cols, mask=cols < N, cache_modifier=WEIGHT_CACHE).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=cols < N, cache_modifier=WEIGHT_CACHE).to(tl.float32)
        y = (held[i].to(tl.float32) - mean) * rstd * w + b
        tl.store(y_ptr + row + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Two to 24 chunks, at most 64 values a thread, of rows that do not spill."""
    chunks = triton.cdiv(shape["N"], params["CHUNK"])
    threads = 32 * params["num_warps"]
    held = chunks * params["CHUNK"] / threads
    fitting = shape["N"] <= 6144
    return fitting and 2 <= chunks <= 24 and params["CHUNK"] >= threads and held <= 64


def kernel(
    x, weight, bias, *, CHUNK=256, KEEP_FP32=False, CENTRED=False, WEIGHT_CACHE="", num_warps=4
):
    M, N = x.shape
    y = torch.empty_like(x)
    held_chunks_kernel[(M,)](
        x, weight, bias, y, N, EPS, CHUNK, triton.cdiv(N, CHUNK), KEEP_FP32, CENTRED,
        WEIGHT_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return y
