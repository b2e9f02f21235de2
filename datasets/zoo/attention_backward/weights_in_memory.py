"""The naive way: weights and their gradients go to memory, three plain products read them back."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def weights_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, w_ptr, ds_ptr, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """A tile of the weights and of the gradient of the scores."""
    i = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    head = tl.program_id(2) * S
    d = tl.arange(0, D)
    rows, cols = (head + i[:, None]) * D + d[None, :], (head + j[None, :]) * D + d[:, None]
    q = tl.load(q_ptr + rows, mask=i[:, None] < S, other=0.0)
    grad = tl.load(grad_ptr + rows, mask=i[:, None] < S, other=0.0)
    out = tl.load(out_ptr + rows, mask=i[:, None] < S, other=0.0)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), axis=1)
    lse = tl.load(lse_ptr + head + i, mask=i < S, other=0.0)
    k = tl.load(k_ptr + cols, mask=j[None, :] < S, other=0.0)
    v = tl.load(v_ptr + cols, mask=j[None, :] < S, other=0.0)
    weights = tl.exp(tl.dot(q, k) * scale - lse[:, None])
    if CAUSAL:
        weights = tl.where(i[:, None] >= j[None, :], weights, 0.0)
    ds = weights * (tl.dot(grad, v) - delta[:, None]) * scale
    at = (head + i[:, None]) * S + j[None, :]
    inside = (i[:, None] < S) & (j[None, :] < S)
    tl.store(w_ptr + at, weights.to(w_ptr.dtype.element_ty), mask=inside)
    tl.store(ds_ptr + at, ds.to(ds_ptr.dtype.element_ty), mask=inside)


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, S, stride_m, stride_k,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A B, head by head: A (S, S) by strides, so that it may be transposed; B, C (S, D)."""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    head = tl.program_id(1) * S
    d = tl.arange(0, D)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, S, BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        inside = (i[:, None] < S) & (j[None, :] < S)
        a_at = head * S + i[:, None] * stride_m + j[None, :] * stride_k
        a = tl.load(a_ptr + a_at, mask=inside, other=0.0)
        b = tl.load(b_ptr + (head + j[:, None]) * D + d[None, :], mask=j[:, None] < S, other=0.0)
        acc = tl.dot(a, b, acc)
    at = (head + i[:, None]) * D + d[None, :]
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=i[:, None] < S)


def valid(params, shape):
    """Tiles of each kernel fit in registers and shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    D, item = shape["D"], 4 if shape.get("dtype") == "float32" else 2
    held = max(2 * m * n, m * D) / (32 * params["num_warps"])
    shared = max(2 * (m + n) * D, params["num_stages"] * k * (m + D)) * item
    return shared <= 227 * 1024 and 4 <= held <= 256


def kernel(
    q, k, v, out, lse, grad_out, causal, *,
    BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, S, D = q.shape
    w, ds = torch.empty((2, B * H, S, S), dtype=q.dtype, device=q.device)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    blocks = triton.cdiv(S, BLOCK_M)
    weights_kernel[(triton.cdiv(S, BLOCK_N), blocks, B * H)](
        q, k, v, out, grad_out, lse, w, ds, S, D**-0.5, D, causal, BLOCK_M, BLOCK_N,
        num_warps=num_warps,
    )  # fmt: skip
    products = ((ds, k, dq, S, 1), (ds, q, dk, 1, S), (w, grad_out, dv, 1, S))
    for a, b, c, stride_m, stride_k in products:
        product_kernel[(blocks, B * H)](
            a, b, c, S, stride_m, stride_k, D, BLOCK_M, BLOCK_K,
            num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
    return dq, dk, dv
