"""dy is transposed in a kernel of its own, which sums the bias on the way; then a usual product."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.weight_gradient.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TURN": [32, 64],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "BLOCK_T": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def turn_kernel(dy, turned, bias, T, N, TURN: tl.constexpr):
    t = tl.program_id(0) * TURN + tl.arange(0, TURN)
    n = tl.program_id(1) * TURN + tl.arange(0, TURN)
    inside = (t[:, None] < T) & (n[None, :] < N)
    tile = tl.load(dy + t[:, None] * N + n[None, :], mask=inside, other=0.0)
    inside = (n[:, None] < N) & (t[None, :] < T)
    tl.store(turned + n[:, None] * T + t[None, :], tl.trans(tile), mask=inside)
    tl.atomic_add(bias + n, tl.sum(tile.to(tl.float32), axis=0), mask=n < N, sem="relaxed")


@triton.jit
def product_kernel(
    turned, x, dw, bias, db, T, N, K,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for step in range(tl.cdiv(T, BLOCK_T)):
        t = step * BLOCK_T + tl.arange(0, BLOCK_T)
        a_mask = (n[:, None] < N) & (t[None, :] < T)
        b_mask = (t[:, None] < T) & (k[None, :] < K)
        a = tl.load(turned + n[:, None] * T + t[None, :], mask=a_mask, other=0.0)
        acc += tl.dot(a, tl.load(x + t[:, None] * K + k[None, :], mask=b_mask, other=0.0))
    inside = (n[:, None] < N) & (k[None, :] < K)
    tl.store(dw + n[:, None] * K + k[None, :], acc.to(dw.dtype.element_ty), mask=inside)
    if tl.program_id(1) == 0:
        total = tl.load(bias + n, mask=n < N)
        tl.store(db + n, total.to(db.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    n, k, t = params["BLOCK_N"], params["BLOCK_K"], params["BLOCK_T"]
    shared = params["num_stages"] * (n + k) * t * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= n * k / (32 * params["num_warps"]) <= 128


def kernel(dy, x, *, TURN=32, BLOCK_N=64, BLOCK_K=64, BLOCK_T=32, num_warps=4, num_stages=3):
    (T, N), K = dy.shape, x.shape[1]
    turned = torch.empty((N, T), dtype=dy.dtype, device=x.device)
    bias = torch.zeros(N, dtype=torch.float32, device=x.device)
    dw = torch.empty((N, K), dtype=x.dtype, device=x.device)
    db = torch.empty(N, dtype=x.dtype, device=x.device)
    turn_kernel[(triton.cdiv(T, TURN), triton.cdiv(N, TURN))](dy, turned, bias, T, N, TURN)
    product_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(K, BLOCK_K))](
        turned, x, dw, bias, db, T, N, K, BLOCK_N, BLOCK_K, BLOCK_T,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dw, db
