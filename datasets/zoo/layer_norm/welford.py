"""Layer normalisation by a Welford update in every lane, the moments merged by Chan's rule."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "DIVIDE": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def merge_moments(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    share = tl.where(count > 0.0, count_b / tl.maximum(count, 1.0), 0.0)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def welford_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, N, eps, BLOCK: tl.constexpr, DIVIDE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * N
    lanes = tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK,), dtype=tl.float32)
    m2 = tl.zeros((BLOCK,), dtype=tl.float32)
    count = tl.zeros((BLOCK,), dtype=tl.float32)
    seen = 0.0
    for start in range(0, N, BLOCK):
        inside = start + lanes < N
        x = tl.load(x_ptr + row + start + lanes, mask=inside, other=0.0).to(tl.float32)
        seen += 1.0  # what a lane has seen is a scalar, but for the last block
        delta = x - mean
        step = delta / seen if DIVIDE else delta * (1.0 / seen)
        mean = tl.where(inside, mean + step, mean)
        m2 += tl.where(inside, delta * (x - mean), 0.0)
        count += tl.where(inside, 1.0, 0.0)
    mean, m2, count = tl.reduce((mean, m2, count), 0, merge_moments)
    rstd = tl.rsqrt(m2 / N + eps)
    for start in range(0, N, BLOCK):
        cols = start + lanes
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = (x - mean) * rstd * weight + bias
        tl.store(out_ptr + row + cols, out.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """One to 16 lanes a thread, each of three moments; no block far longer than a row."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and (params["BLOCK"] <= 512 or params["BLOCK"] < 2 * shape["N"])


def kernel(x, weight, bias, *, BLOCK=512, DIVIDE=False, num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    welford_kernel[(M,)](
        x, weight, bias, out, N, EPS, BLOCK, DIVIDE, num_warps=num_warps, num_stages=num_stages
    )
    return out
