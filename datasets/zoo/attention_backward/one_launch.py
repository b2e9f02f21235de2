"""A single launch without atomics: a program makes dk and dv of a block, then dq of the same rows.

Block pointers; delta is made where it is wanted.
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
    "OWN": [32, 64, 128],
    "STEP": [16, 32, 64],
    "APART": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def tile_of(base, row, S, D: tl.constexpr, ROWS: tl.constexpr):
    return tl.make_block_ptr(base, (S, D), (D, 1), (row, 0), (ROWS, D), (1, 0))


@triton.jit
def row_terms(out, grad, lse_ptr, rows, S):
    """Log-sum-exp and delta of some rows; beyond S such that weights are zero."""
    lse = tl.load(lse_ptr + rows, mask=rows < S, other=float("inf"))
    return lse, tl.sum(out.to(tl.float32) * grad.to(tl.float32), axis=1)


@triton.jit
def of_keys(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, dk_ptr, dv_ptr, own, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, OWN: tl.constexpr, STEP: tl.constexpr,
    LOG2_E: tl.constexpr,
):  # fmt: skip
    k = tl.load(tile_of(k_ptr, own, S, D, OWN), boundary_check=(0,), padding_option="zero")
    v = tl.load(tile_of(v_ptr, own, S, D, OWN), boundary_check=(0,), padding_option="zero")
    cols = own + tl.arange(0, OWN)
    dk = tl.zeros((OWN, D), dtype=tl.float32)
    dv = tl.zeros((OWN, D), dtype=tl.float32)
    for row in range(own // STEP * STEP if CAUSAL else 0, S, STEP):
        rows = row + tl.arange(0, STEP)
        q = tl.load(tile_of(q_ptr, row, S, D, STEP), boundary_check=(0,), padding_option="zero")
        g = tl.load(tile_of(grad_ptr, row, S, D, STEP), boundary_check=(0,), padding_option="zero")
        o = tl.load(tile_of(out_ptr, row, S, D, STEP), boundary_check=(0,), padding_option="zero")
        lse, delta = row_terms(o, g, lse_ptr, rows, S)
        weights = tl.exp2((tl.dot(k, q.T) * scale - lse[None, :]) * LOG2_E)
        if CAUSAL:
            weights = tl.where(cols[:, None] <= rows[None, :], weights, 0.0)
        dv = tl.dot(weights.to(g.dtype), g, dv)
        ds = weights * (tl.dot(v, g.T) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    kind = dk_ptr.dtype.element_ty
    tl.store(tile_of(dk_ptr, own, S, D, OWN), (dk * scale).to(kind), boundary_check=(0,))
    tl.store(tile_of(dv_ptr, own, S, D, OWN), dv.to(kind), boundary_check=(0,))


@triton.jit
def of_queries(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, dq_ptr, own, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, OWN: tl.constexpr, STEP: tl.constexpr,
    LOG2_E: tl.constexpr,
):  # fmt: skip
    q = tl.load(tile_of(q_ptr, own, S, D, OWN), boundary_check=(0,), padding_option="zero")
    g = tl.load(tile_of(grad_ptr, own, S, D, OWN), boundary_check=(0,), padding_option="zero")
    o = tl.load(tile_of(out_ptr, own, S, D, OWN), boundary_check=(0,), padding_option="zero")
    rows = own + tl.arange(0, OWN)
    lse, delta = row_terms(o, g, lse_ptr, rows, S)
    dq = tl.zeros((OWN, D), dtype=tl.float32)
    for col in range(0, min(own + OWN, S) if CAUSAL else S, STEP):
        cols = col + tl.arange(0, STEP)
        k = tl.load(tile_of(k_ptr, col, S, D, STEP), boundary_check=(0,), padding_option="zero")
        v = tl.load(tile_of(v_ptr, col, S, D, STEP), boundary_check=(0,), padding_option="zero")
        weights = tl.exp2((tl.dot(q, k.T) * scale - lse[:, None]) * LOG2_E)
        limit = rows[:, None] if CAUSAL else S - 1
        weights = tl.where(cols[None, :] <= limit, weights, 0.0)
        ds = weights * (tl.dot(g, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    dq = (dq * scale).to(dq_ptr.dtype.element_ty)
    tl.store(tile_of(dq_ptr, own, S, D, OWN), dq, boundary_check=(0,))


@triton.jit
def gradients_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, dq_ptr, dk_ptr, dv_ptr, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, OWN: tl.constexpr, STEP: tl.constexpr,
    APART: tl.constexpr, LOG2_E: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(1) * S * D
    lse_ptr += tl.program_id(1) * S
    own = tl.program_id(0) * OWN
    if not APART or tl.program_id(2) == 0:
        of_keys(
            q_ptr + at, k_ptr + at, v_ptr + at, out_ptr + at, grad_ptr + at, lse_ptr, dk_ptr + at,
            dv_ptr + at, own, S, scale, D, CAUSAL, OWN, STEP, LOG2_E,
        )  # fmt: skip
    if not APART or tl.program_id(2) == 1:
        of_queries(
            q_ptr + at, k_ptr + at, v_ptr + at, out_ptr + at, grad_ptr + at, lse_ptr, dq_ptr + at,
            own, S, scale, D, CAUSAL, OWN, STEP, LOG2_E,
        )  # fmt: skip


def valid(params, shape):
    return fits(shape, params["STEP"], params["OWN"], params["num_warps"], params["num_stages"])


def kernel(
    q, k, v, out, lse, grad_out, causal, *,
    OWN=64, STEP=32, APART=True, num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, S, D = q.shape
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    gradients_kernel[(triton.cdiv(S, OWN), B * H, 2 if APART else 1)](
        q, k, v, out, grad_out, lse, dq, dk, dv, S, D**-0.5, D, causal, OWN, STEP, APART, LOG2_E,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dq, dk, dv
