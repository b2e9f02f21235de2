"""Causal softmax by programs that stay, each taking a short row with every long one."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.masked_softmax.problem import SCALE, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056],
    "PAIRED": [True, False],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def persistent_kernel(
    x_ptr, y_ptr, rows, Q, K, scale, BLOCK: tl.constexpr, PAIRED: tl.constexpr,
    STORE_CACHE: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, BLOCK)
    for turn in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        row = turn
        if PAIRED:  # every other turn goes by the mirrored query: 0, Q - 1, 1, Q - 2, ...
            place = turn % Q
            query = tl.where(place % 2 == 0, place // 2, Q - 1 - place // 2)
            row = turn - place + query
        seen = k <= row % Q + K - Q
        at = tl.cast(row, tl.int64) * K + k
        x = tl.load(x_ptr + at, mask=seen, other=float("-inf")).to(tl.float32) * scale
        e = tl.exp(x - tl.max(x, axis=0))
        y = (e * (1.0 / tl.sum(e, axis=0))).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + at, y, mask=k < K, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, work for every program, stages that shared memory holds."""
    block = triton.next_power_of_2(shape["K"])
    busy = params["PROGRAMS"] <= shape["B"] * shape["Q"]
    fits = 4 * block * params["num_stages"] <= 227 * 1024
    return busy and fits and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(scores, *, PROGRAMS=264, PAIRED=True, STORE_CACHE="", num_warps=4, num_stages=2):
    B, Q, K = scores.shape
    y = torch.empty_like(scores)
    persistent_kernel[(min(PROGRAMS, B * Q),)](
        scores, y, B * Q, Q, K, SCALE, triton.next_power_of_2(K), PAIRED, STORE_CACHE,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
