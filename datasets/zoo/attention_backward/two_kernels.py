"""One kernel a block of keys for dk and dv, another a block of queries for dq; delta made before.

Scores are computed twice, but nothing is added up in memory.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_backward.problem import (
    LOG2_E,
    SHAPES,
    TOLERANCE,
    fits,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [16, 32, 64, 128],
    "SAME": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def delta_kernel(out_ptr, grad_ptr, delta_ptr, N, D: tl.constexpr, ROWS: tl.constexpr):
    """The dot product of each row of the result with that of its gradient."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + at, mask=rows[:, None] < N, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + at, mask=rows[:, None] < N, other=0.0).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(out * grad, axis=1), mask=rows < N)


@triton.jit
def keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    LOG2_E: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * S
    col0 = tl.program_id(0) * BLOCK_N
    cols, d = col0 + tl.arange(0, BLOCK_N), tl.arange(0, D)
    mine = (head + cols[:, None]) * D + d[None, :]
    k = tl.load(k_ptr + mine, mask=cols[:, None] < S, other=0.0)
    v = tl.load(v_ptr + mine, mask=cols[:, None] < S, other=0.0)
    dk = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    first = col0 // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start in range(first, S, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        tile = (head + rows[:, None]) * D + d[None, :]
        q = tl.load(q_ptr + tile, mask=rows[:, None] < S, other=0.0)
        grad = tl.load(grad_ptr + tile, mask=rows[:, None] < S, other=0.0)
        lse = tl.load(lse_ptr + head + rows, mask=rows < S, other=float("inf")) * LOG2_E
        delta = tl.load(delta_ptr + head + rows, mask=rows < S, other=0.0)
        weights = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * LOG2_E) - lse[:, None])
        if CAUSAL:
            weights = tl.where(cols[None, :] <= rows[:, None], weights, 0.0)
        dv = tl.dot(tl.trans(weights.to(grad.dtype)), grad, dv)
        ds = weights * (tl.dot(grad, tl.trans(v)) - delta[:, None])
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    kind = dk_ptr.dtype.element_ty
    tl.store(dk_ptr + mine, (dk * scale).to(kind), mask=cols[:, None] < S)
    tl.store(dv_ptr + mine, dv.to(kind), mask=cols[:, None] < S)


@triton.jit
def queries_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    LOG2_E: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * S
    row0 = tl.program_id(0) * BLOCK_M
    rows, d = row0 + tl.arange(0, BLOCK_M), tl.arange(0, D)
    mine = (head + rows[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + mine, mask=rows[:, None] < S, other=0.0)
    grad = tl.load(grad_ptr + mine, mask=rows[:, None] < S, other=0.0)
    lse = tl.load(lse_ptr + head + rows, mask=rows < S, other=0.0) * LOG2_E
    delta = tl.load(delta_ptr + head + rows, mask=rows < S, other=0.0)
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = min(row0 + BLOCK_M, S) if CAUSAL else S
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        tile = (head + cols[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=cols[:, None] < S, other=0.0)
        v = tl.load(v_ptr + tile, mask=cols[:, None] < S, other=0.0)
        weights = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * LOG2_E) - lse[:, None])
        seen = cols[None, :] <= rows[:, None] if CAUSAL else cols[None, :] < S
        weights = tl.where(seen, weights, 0.0)
        ds = weights * (tl.dot(grad, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + mine, (dq * scale).to(dq_ptr.dtype.element_ty), mask=rows[:, None] < S)


def valid(params, shape):
    """Tiles fit; `SAME` gives both kernels tiles of one form, else the second has them turned."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return (m != n or not params["SAME"]) and fits(
        shape, m, n, params["num_warps"], params["num_stages"]
    )


def kernel(
    q, k, v, out, lse, grad_out, causal, *,
    BLOCK_M=32, BLOCK_N=64, SAME=False, num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, S, D = q.shape
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    rows, launch = B * H * S, {"num_warps": num_warps, "num_stages": num_stages}
    delta_kernel[(triton.cdiv(rows, 32),)](out, grad_out, delta, rows, D, 32)
    keys_kernel[(triton.cdiv(S, BLOCK_N), B * H)](
        q, k, v, grad_out, lse, delta, dk, dv, S, D**-0.5, D, causal, BLOCK_M, BLOCK_N, LOG2_E,
        **launch,
    )  # fmt: skip
    m, n = (BLOCK_M, BLOCK_N) if SAME else (BLOCK_N, BLOCK_M)
    queries_kernel[(triton.cdiv(S, m), B * H)](
        q, k, v, grad_out, lse, delta, dq, S, D**-0.5, D, causal, m, n, LOG2_E, **launch
    )
    return dq, dk, dv
