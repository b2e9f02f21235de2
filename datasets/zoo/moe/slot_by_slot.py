"""For few tokens: a matrix times vector a slot, without tensor cores, added up atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [4, 8, 16, 32, 64],
    "SPLIT": [1, 4, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def slot_kernel(
    x_ptr, w_ptr, gate_ptr, slot_ptr, offset_ptr, sum_ptr, N, K, E, TOP: tl.constexpr,
    EXPERTS: tl.constexpr, SPLIT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(1)
    slot = tl.load(slot_ptr + at)
    e = tl.arange(0, EXPERTS)
    ends = tl.load(offset_ptr + e + 1, mask=e < E, other=2147483647)
    expert = tl.sum((ends <= at).to(tl.int32)).to(tl.int64)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_ptr += slot // TOP * K
    w_ptr += expert * K * N
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for k0 in range(tl.program_id(2) * BLOCK_K, K, SPLIT * BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + k, mask=k < K, other=0.0).to(tl.float32)
        inside = (k[:, None] < K) & (n[None, :] < N)
        w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(x[:, None] * w, axis=0)
    total *= tl.load(gate_ptr + slot)
    tl.atomic_add(sum_ptr + slot // TOP * N + n, total, mask=n < N, sem="relaxed")


def valid(params, shape):
    """Few slots; 2 to 64 weights a thread; parts of four steps or more."""
    few = shape["T"] * shape["TOP"] * shape["N"] * shape["K"] <= 2**28
    long = shape["K"] >= 4 * params["SPLIT"] * params["BLOCK_K"]
    held = params["BLOCK_N"] * params["BLOCK_K"] / (32 * params["num_warps"])
    return few and long and 2 <= held <= 64


def kernel(x, w, gates, slots, offsets, sizes, *, BLOCK_N=64, BLOCK_K=32, SPLIT=1, num_warps=4):
    (T, K), (E, _, N), top = x.shape, w.shape, gates.shape[1]
    total = torch.zeros((T, N), dtype=torch.float32, device=x.device)
    slot_kernel[(triton.cdiv(N, BLOCK_N), T * top, SPLIT)](
        x, w, gates, slots, offsets, total, N, K, E, top, triton.next_power_of_2(E), SPLIT,
        BLOCK_N, BLOCK_K, num_warps=num_warps,
    )  # fmt: skip
    return total.to(x.dtype)
