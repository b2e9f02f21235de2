"""The recurrence itself: a memory of D rows and some columns, one token after another, no dot."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.linear_attention.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_V": [4, 8, 16, 32, 64],
    "UNROLL": [1, 2, 4],
    "APART": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 4],
}


@triton.jit
def token_kernel(
    q_ptr, k_ptr, v_ptr, fade_ptr, out_ptr, H, S,
    D: tl.constexpr, BLOCK_V: tl.constexpr, UNROLL: tl.constexpr, APART: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    kept = tl.exp(tl.load(fade_ptr + head % H))
    d = tl.arange(0, D)
    e = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    memory = tl.zeros((D, BLOCK_V), dtype=tl.float32)
    for t in tl.range(head * S, head * S + S, loop_unroll_factor=UNROLL, num_stages=STAGES):
        q = tl.load(q_ptr + t * D + d).to(tl.float32)
        k = tl.load(k_ptr + t * D + d).to(tl.float32)
        v = tl.load(v_ptr + t * D + e).to(tl.float32)
        if APART:  # the new token's share apart: one chain of dependences is shorter
            out = tl.sum(q[:, None] * memory, axis=0) * kept + tl.sum(q * k, axis=0) * v
            memory = memory * kept + k[:, None] * v[None, :]
        else:
            memory = memory * kept + k[:, None] * v[None, :]
            out = tl.sum(q[:, None] * memory, axis=0)
        tl.store(out_ptr + t * D + e, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Two to 64 cells of the memory a thread; long sequences would take milliseconds."""
    cells = shape["D"] * params["BLOCK_V"] / (32 * params["num_warps"])
    return params["BLOCK_V"] <= shape["D"] and 2 <= cells <= 64 and shape["S"] <= 2048


def kernel(q, k, v, fade, *, BLOCK_V=8, UNROLL=1, APART=False, num_warps=1, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    token_kernel[(D // BLOCK_V, B * H)](
        q, k, v, fade, out, H, S, D, BLOCK_V, UNROLL, APART, num_stages, num_warps=num_warps
    )
    return out
