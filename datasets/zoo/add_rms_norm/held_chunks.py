"""Residual and RMS normalisation of rows held as a tuple of rounded chunks."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.add_rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "KEEP_FP32": [False, True],
    "STORE_LATE": [False, True],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def held_chunks_kernel(
    x_ptr, r_ptr, w_ptr, y_ptr, s_ptr, N, eps, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
    KEEP_FP32: tl.constexpr, STORE_LATE: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(0).to(tl.int64) * N
    squares = tl.zeros((CHUNK,), dtype=tl.float32)
    held = ()
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(x_ptr + base + cols, mask=cols < N, other=0.0).to(tl.float32)
        s = x + tl.load(r_ptr + base + cols, mask=cols < N, other=0.0).to(tl.float32)
        squares += s * s
        narrow = s.to(s_ptr.dtype.element_ty)
        if not STORE_LATE:
            tl.store(s_ptr + base + cols, narrow, mask=cols < N)
        held += (s if KEEP_FP32 else narrow,)
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        s = held[i]
        if STORE_LATE:
            tl.store(s_ptr + base + cols, s.to(s_ptr.dtype.element_ty), mask=cols < N)
        w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        y = s.to(tl.float32) * scale * w
        tl.store(y_ptr + base + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """At most 24 chunks, and one to 64 values a thread."""
    chunks = triton.cdiv(shape["N"], params["CHUNK"])
    threads = 32 * params["num_warps"]
    held = chunks * params["CHUNK"] / threads
    wanted = shape["N"] <= 8192 and chunks <= 24 and params["CHUNK"] < 2 * shape["N"]
    return wanted and params["CHUNK"] >= threads and held <= 64


def kernel(x, residual, weight, *, CHUNK=512, KEEP_FP32=False, STORE_LATE=False, num_warps=8):
    M, N = x.shape
    y, s = torch.empty_like(x), torch.empty_like(x)
    held_chunks_kernel[(M,)](
        x, residual, weight, y, s, N, EPS, CHUNK, triton.cdiv(N, CHUNK), KEEP_FP32, STORE_LATE,
        num_warps=num_warps,
    )  # fmt: skip
    return y, s
