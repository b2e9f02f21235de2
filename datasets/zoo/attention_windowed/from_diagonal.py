"""Block pointers that go back from the diagonal: the first step nearly finds the peak."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_windowed.problem import (
    LOG2_E,
    SHAPES,
    TOLERANCE,
    fits,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "TRANSPOSED": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def backwards_kernel(
    Q, K, V, Out, S, window, qk_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * S * D
    q_block = tl.make_block_ptr(Q + base, (S, D), (D, 1), (start_m, 0), (BLOCK_M, D), (1, 0))
    o_block = tl.make_block_ptr(Out + base, (S, D), (D, 1), (start_m, 0), (BLOCK_M, D), (1, 0))
    last = (tl.minimum(start_m + BLOCK_M, S) - 1) // BLOCK_N
    first = tl.maximum(start_m - window + 1, 0) // BLOCK_N
    at = last * BLOCK_N
    if TRANSPOSED:
        k_block = tl.make_block_ptr(K + base, (D, S), (1, D), (0, at), (D, BLOCK_N), (0, 1))
    else:
        k_block = tl.make_block_ptr(K + base, (S, D), (D, 1), (at, 0), (BLOCK_N, D), (1, 0))
    v_block = tl.make_block_ptr(V + base, (S, D), (D, 1), (at, 0), (BLOCK_N, D), (1, 0))
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    offs_m = start_m + tl.arange(0, BLOCK_M)
    m_i = tl.full([BLOCK_M], -1e30, tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for step in range(0, last - first + 1):
        if TRANSPOSED:
            k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        else:
            k = tl.trans(tl.load(k_block, boundary_check=(0,), padding_option="zero"))
        back = offs_m[:, None] - ((last - step) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
        qk = tl.where((back >= 0) & (back < window), tl.dot(q, k) * qk_scale, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp2(m_i - m_new)
        p = tl.exp2(qk - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
        k_block = tl.advance(k_block, (0, -BLOCK_N) if TRANSPOSED else (-BLOCK_N, 0))
        v_block = tl.advance(v_block, (-BLOCK_N, 0))
    out = (acc / l_i[:, None]).to(Out.dtype.element_ty)
    tl.store(o_block, out, boundary_check=(0,))


def valid(params, shape):
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return fits(shape, m, n, params["num_warps"], params["num_stages"])


def kernel(q, k, v, window, *, BLOCK_M=64, BLOCK_N=32, TRANSPOSED=True, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    backwards_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, S, window, D**-0.5 * LOG2_E, D, BLOCK_M, BLOCK_N, TRANSPOSED,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
