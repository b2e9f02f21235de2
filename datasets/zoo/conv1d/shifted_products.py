"""One product on the tensor cores for each tap and chunk of channels, its rows shifted in time."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_T": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "BLOCK_C": [16, 32, 64],
    "TAPS_INNER": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def shifted_kernel(
    x_ptr, weight_ptr, out_ptr, T, C, K, R,
    BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr, TAPS_INNER: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    x_ptr += tl.program_id(2) * T * C
    chunks = tl.cdiv(C, BLOCK_C)
    acc = tl.zeros((BLOCK_T, BLOCK_K), dtype=tl.float32)
    for step in range(R * chunks):
        if TAPS_INNER:  # the same inputs again, one row further on
            chunk, tap = step // R, step % R
        else:
            tap, chunk = step // chunks, step % chunks
        at = t + tap - R // 2
        c = chunk * BLOCK_C + tl.arange(0, BLOCK_C)
        x_mask = (at[:, None] >= 0) & (at[:, None] < T) & (c[None, :] < C)
        x = tl.load(x_ptr + at[:, None] * C + c[None, :], mask=x_mask, other=0.0)
        w_mask = (c[:, None] < C) & (k[None, :] < K)
        w = tl.load(weight_ptr + (tap * C + c[:, None]) * K + k[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    out = out_ptr + (tl.program_id(2) * T + t[:, None]) * K + k[None, :]
    mask = (t[:, None] < T) & (k[None, :] < K)
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """Tiles fit in shared memory, accumulators in registers; tiles not far wider than needed."""
    t, k, c = params["BLOCK_T"], params["BLOCK_K"], params["BLOCK_C"]
    size = 4 if shape["dtype"] in ("float32", torch.float32) else 2
    shared = params["num_stages"] * (t + k) * c * size
    fits = shared <= 220 * 1024 and k < 2 * max(shape["K"], 32) and c < 2 * max(shape["C"], 16)
    return fits and 8 <= t * k / (32 * params["num_warps"]) <= 128


def kernel(
    x, weight, *, BLOCK_T=64, BLOCK_K=32, BLOCK_C=16, TAPS_INNER=False, num_warps=4, num_stages=3
):
    B, T, C = x.shape
    R, _, K = weight.shape
    out = torch.empty((B, T, K), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(T, BLOCK_T), triton.cdiv(K, BLOCK_K), B)
    shifted_kernel[grid](
        x, weight, out, T, C, K, R, BLOCK_T, BLOCK_K, BLOCK_C, TAPS_INNER,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
