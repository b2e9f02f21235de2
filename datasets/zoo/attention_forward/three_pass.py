"""The naive way, three launches: scores to memory, a softmax of their rows, weights times v."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "SKIP": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, s_ptr, GROUP, S, scale,
    D: tl.constexpr, SKIP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """A tile of scores = scale * q k^T; with `SKIP`, none beyond the diagonal."""
    i = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    j = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    head = tl.program_id(2)
    if SKIP and tl.program_id(0) * BLOCK_N >= (tl.program_id(1) + 1) * BLOCK_M:
        return
    d = tl.arange(0, D)
    q = tl.load(q_ptr + (head * S + i) * D + d[None, :], mask=i < S, other=0.0)
    keys = k_ptr + (head // GROUP * S + j[None, :]) * D + d[:, None]
    k = tl.load(keys, mask=j[None, :] < S, other=0.0)
    inside = (i < S) & (j[None, :] < S)
    tl.store(s_ptr + (head * S + i) * S + j[None, :], tl.dot(q, k) * scale, mask=inside)


@triton.jit
def softmax_kernel(s_ptr, S, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    """One row a program, in place."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    seen = cols < (row % S + 1 if CAUSAL else S)
    x = tl.load(s_ptr + row * S + cols, mask=seen, other=float("-inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(s_ptr + row * S + cols, x / tl.sum(x, axis=0), mask=cols < S)


@triton.jit
def values_kernel(
    s_ptr, v_ptr, out_ptr, GROUP, S,
    D: tl.constexpr, SKIP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of the result: weights, read from memory, times v."""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    head = tl.program_id(1)
    d = tl.arange(0, D)[None, :]
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = min((tl.program_id(0) + 1) * BLOCK_M, S) if SKIP else S
    for start in range(0, end, BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        inside = (i < S) & (j[None, :] < S)
        w = tl.load(s_ptr + (head * S + i) * S + j[None, :], mask=inside, other=0.0)
        values = v_ptr + (head // GROUP * S + j[:, None]) * D + d
        v = tl.load(values, mask=j[:, None] < S, other=0.0)
        acc = tl.dot(w.to(v.dtype), v, acc)
    out = acc.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + (head * S + i) * D + d, out, mask=i < S)


def valid(params, shape):
    """Tiles fit; what may be skipped lies beyond a diagonal; scores take at most 576 MiB."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    if params["SKIP"] and not shape["causal"]:
        return False
    held = m * max(n, shape["D"]) / (32 * warps)
    return held <= 128 and shape["B"] * shape["H"] * shape["S"] ** 2 <= 144 * 2**20


def kernel(
    q, k, v, causal, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, SKIP=False, num_warps=4, num_stages=2
):
    B, H, S, D = q.shape
    group = H // k.shape[1]
    out = torch.empty_like(q)
    scores = torch.empty((B * H, S, S), dtype=torch.float32, device=q.device)
    blocks = triton.cdiv(S, BLOCK_M)
    launch = {"num_warps": num_warps, "num_stages": num_stages}
    scores_kernel[(triton.cdiv(S, BLOCK_N), blocks, B * H)](
        q, k, scores, group, S, D**-0.5, D, SKIP, BLOCK_M, BLOCK_N, **launch
    )
    softmax_kernel[(B * H * S,)](scores, S, causal, triton.next_power_of_2(S), num_warps=num_warps)
    values_kernel[(blocks, B * H)](scores, v, out, group, S, D, SKIP, BLOCK_M, BLOCK_K, **launch)
    return out
