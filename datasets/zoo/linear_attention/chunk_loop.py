"""Some columns of the values a program: chunk after chunk, the memory stays in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.linear_attention.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "CHUNK": [16, 32, 64, 128],
    "BLOCK_V": [16, 32, 64, 128],
    "MEMORY_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def chunk_loop_kernel(
    q_ptr, k_ptr, v_ptr, fade_ptr, out_ptr, H, S,
    D: tl.constexpr, CHUNK: tl.constexpr, BLOCK_V: tl.constexpr, MEMORY_FIRST: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    fade = tl.load(fade_ptr + head % H) * 1.4426950408889634
    i, d = tl.arange(0, CHUNK), tl.arange(0, D)
    e = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    apart = i[:, None] - i[None, :]
    faded = tl.where(apart >= 0, tl.exp2(tl.maximum(apart, 0) * fade), 0.0)
    memory = tl.zeros((D, BLOCK_V), dtype=tl.float32)
    for start in range(0, S, CHUNK):
        row = head * S + start + i
        inside = (start + i < S)[:, None]
        q = tl.load(q_ptr + row[:, None] * D + d[None, :], mask=inside, other=0.0)
        k = tl.load(k_ptr + row[:, None] * D + d[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + row[:, None] * D + e[None, :], mask=inside, other=0.0)
        recalled = tl.exp2((i + 1) * fade)[:, None]
        if MEMORY_FIRST:
            out = tl.dot(q, memory.to(q.dtype)) * recalled
            weights = (tl.dot(q, k.T) * faded).to(v.dtype)
            out = tl.dot(weights, v, out)
        else:
            out = tl.dot((tl.dot(q, k.T) * faded).to(v.dtype), v)
            out += tl.dot((q * recalled).to(q.dtype), memory.to(q.dtype))
        at = out_ptr + row[:, None] * D + e[None, :]
        tl.store(at, out.to(out_ptr.dtype.element_ty), mask=inside)
        kept = (k * tl.exp2((CHUNK - 1 - i) * fade)[:, None]).to(k.dtype)
        memory = tl.dot(kept.T, v, memory * tl.exp2(CHUNK * fade))


def valid(params, shape):
    """The memory, weights and results fit in registers, tiles in shared memory."""
    chunk, columns, D = params["CHUNK"], params["BLOCK_V"], shape["D"]
    if columns > D:
        return False
    held = (D * columns + chunk * chunk + chunk * columns) / (32 * params["num_warps"])
    item = 4 if shape.get("dtype") == "float32" else 2
    shared = (params["num_stages"] + 1) * chunk * (2 * D + columns) * item
    return 4 <= held <= 256 and shared <= 220 * 1024


def kernel(q, k, v, fade, *, CHUNK=32, BLOCK_V=32, MEMORY_FIRST=True, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    chunk_loop_kernel[(D // BLOCK_V, B * H)](
        q, k, v, fade, out, H, S, D, CHUNK, BLOCK_V, MEMORY_FIRST,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
