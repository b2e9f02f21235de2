"""Rows in registers as two tiles, halved by reshaping; stored in reversed order of bits."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.fft_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ELEMENTS": [256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def halves(x, ROWS: tl.constexpr, N: tl.constexpr, HALF: tl.constexpr):
    pairs = tl.reshape(x, (ROWS, N // (2 * HALF), 2, HALF))
    return tl.split(tl.permute(pairs, (0, 1, 3, 2)))


@triton.jit
def joined(low, high, ROWS: tl.constexpr, N: tl.constexpr):
    return tl.reshape(tl.permute(tl.join(low, high), (0, 1, 3, 2)), (ROWS, N))


@triton.jit
def fft_kernel(x_ptr, out_ptr, M, ROWS: tl.constexpr, N: tl.constexpr, STEPS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.arange(0, N)
    start = row.to(tl.int64) * (2 * N)
    real = tl.load(x_ptr + start + 2 * i[None, :], mask=row < M, other=0.0).to(tl.float32)
    imag = tl.load(x_ptr + start + 2 * i[None, :] + 1, mask=row < M, other=0.0).to(tl.float32)
    place = tl.zeros((N,), dtype=tl.int32)
    for step in tl.static_range(STEPS):
        angle = tl.arange(0, N // 2 ** (step + 1)) * (-3.141592653589793 * 2 ** (step + 1) / N)
        c = tl.cos(angle)[None, None, :]
        s = tl.sin(angle)[None, None, :]
        real_low, real_high = halves(real, ROWS, N, N // 2 ** (step + 1))
        imag_low, imag_high = halves(imag, ROWS, N, N // 2 ** (step + 1))
        r = real_low - real_high
        m = imag_low - imag_high
        real = joined(real_low + real_high, r * c - m * s, ROWS, N)
        imag = joined(imag_low + imag_high, r * s + m * c, ROWS, N)
        place = place * 2 + ((i >> step) & 1)
    at = out_ptr + start + 2 * place[None, :]
    tl.store(at, real.to(out_ptr.dtype.element_ty), mask=row < M)
    tl.store(at + 1, imag.to(out_ptr.dtype.element_ty), mask=row < M)


def valid(params, shape):
    """Whole rows; two to 32 numbers a thread."""
    held = params["ELEMENTS"] / (32 * params["num_warps"])
    return params["ELEMENTS"] >= shape["N"] and 2 <= held <= 32


def kernel(x, *, ELEMENTS=2048, num_warps=8):
    M, N = x.shape[:2]
    out = torch.empty_like(x)
    rows = ELEMENTS // N
    grid = (triton.cdiv(M, rows),)
    fft_kernel[grid](x, out, M, rows, N, N.bit_length() - 1, num_warps=num_warps)
    return out
