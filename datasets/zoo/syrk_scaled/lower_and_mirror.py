"""Tiles on and below the diagonal only; each is stored twice, once turned."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.syrk_scaled.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [64, 128],
    "BLOCK_K": [32, 64],
    "BY_ROW": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def lower_kernel(
    x_ptr, weights_ptr, out_ptr, M, K, shift,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, BY_ROW: tl.constexpr,
):  # fmt: skip
    # The tile's place in the triangle, from its number: i * (i + 1) / 2 + j.
    pid = tl.program_id(0) if BY_ROW else tl.num_programs(0) - 1 - tl.program_id(0)
    i = ((tl.sqrt(8.0 * pid + 1.0) - 1.0) / 2.0).to(tl.int32)
    i = tl.where(i * (i + 1) // 2 > pid, i - 1, i)
    i = tl.where((i + 1) * (i + 2) // 2 <= pid, i + 1, i)
    j = pid - i * (i + 1) // 2
    m, n = i * BLOCK + tl.arange(0, BLOCK), j * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        a_mask = (m[:, None] < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n[None, :] < M)
        a = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(x_ptr + n[None, :] * K + k[:, None], mask=b_mask, other=0.0)
        weight = tl.load(weights_ptr + k, mask=k < K, other=0.0)
        acc = tl.dot((a * weight[None, :]).to(b.dtype), b, acc)
    acc += tl.where(m[:, None] == n[None, :], shift, 0.0)
    out = acc.to(out_ptr.dtype.element_ty)
    inside = (m[:, None] < M) & (n[None, :] < M)
    tl.store(out_ptr + m[:, None] * M + n[None, :], out, mask=inside)
    if i != j:
        turned = (n[:, None] < M) & (m[None, :] < M)
        tl.store(out_ptr + n[:, None] * M + m[None, :], out.T, mask=turned)


def valid(params, shape):
    """Tiles, loaded and weighted, fit in shared memory; the sum in registers."""
    side, k = params["BLOCK"], params["BLOCK_K"]
    shared = (2 * params["num_stages"] + 1) * side * k * itemsize(shape)
    return shared <= 220 * 1024 and 16 <= side * side / (32 * params["num_warps"]) <= 64


def kernel(
    x, weights, shift, *, BLOCK=128, BLOCK_K=32, BY_ROW=True, num_warps=8, num_stages=3
):  # fmt: skip
    M, K = x.shape
    out = torch.empty((M, M), dtype=x.dtype, device=x.device)
    side = triton.cdiv(M, BLOCK)
    lower_kernel[(side * (side + 1) // 2,)](
        x, weights, out, M, K, shift, BLOCK, BLOCK_K, BY_ROW,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
