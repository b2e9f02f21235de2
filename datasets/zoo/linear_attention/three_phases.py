"""All chunks at once, in three launches: what each adds, the memories before each, the results."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.linear_attention.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "CHUNK": [32, 64, 128],
    "BLOCK_V": [16, 32, 64, 128],
    "CELLS": [256, 1024],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2],
}


@triton.jit
def added_kernel(
    k_ptr, v_ptr, fade_ptr, memory_ptr, H, S,
    D: tl.constexpr, CHUNK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    chunk, head = tl.program_id(1), tl.program_id(2)
    fade = tl.load(fade_ptr + head % H)
    i, d = tl.arange(0, CHUNK), tl.arange(0, D)
    e = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    token = chunk * CHUNK + i
    k_at = (head * S + token[None, :]) * D + d[:, None]
    k = tl.load(k_ptr + k_at, mask=token[None, :] < S, other=0.0)
    v_at = (head * S + token[:, None]) * D + e[None, :]
    v = tl.load(v_ptr + v_at, mask=token[:, None] < S, other=0.0)
    k = (k * tl.exp((CHUNK - 1 - i) * fade)[None, :]).to(k.dtype)
    place = (head * tl.num_programs(1) + chunk) * D + d[:, None]
    tl.store(memory_ptr + place * D + e[None, :], tl.dot(k, v))


@triton.jit
def memories_kernel(
    memory_ptr, fade_ptr, H, CHUNKS, SIZE: tl.constexpr, CHUNK: tl.constexpr, CELLS: tl.constexpr
):  # fmt: skip
    """Put the memory before each chunk in the place of what the chunk adds."""
    head = tl.program_id(1)
    kept = tl.exp(tl.load(fade_ptr + head % H) * CHUNK)
    cells = memory_ptr + head * CHUNKS * SIZE + tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    memory = tl.zeros((CELLS,), dtype=tl.float32)
    for chunk in range(CHUNKS):
        added = tl.load(cells + chunk * SIZE)
        tl.store(cells + chunk * SIZE, memory)
        memory = memory * kept + added


@triton.jit
def results_kernel(
    q_ptr, k_ptr, v_ptr, fade_ptr, memory_ptr, out_ptr, H, S,
    D: tl.constexpr, CHUNK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    chunk, head = tl.program_id(1), tl.program_id(2)
    fade = tl.load(fade_ptr + head % H)
    i, d = tl.arange(0, CHUNK), tl.arange(0, D)
    e = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    token = chunk * CHUNK + i
    row = head * S + token
    q = tl.load(q_ptr + row[:, None] * D + d[None, :], mask=token[:, None] < S, other=0.0)
    k = tl.load(k_ptr + row[None, :] * D + d[:, None], mask=token[None, :] < S, other=0.0)
    v = tl.load(v_ptr + row[:, None] * D + e[None, :], mask=token[:, None] < S, other=0.0)
    place = (head * tl.num_programs(1) + chunk) * D + d[:, None]
    memory = tl.load(memory_ptr + place * D + e[None, :])
    apart = (i[:, None] - i[None, :]).to(tl.float32)
    weights = tl.where(apart >= 0, tl.dot(q, k) * tl.exp(apart * fade), 0.0)
    out = tl.dot(q, memory.to(q.dtype)) * tl.exp((i + 1) * fade)[:, None]
    out = tl.dot(weights.to(v.dtype), v, out)
    at = out_ptr + row[:, None] * D + e[None, :]
    tl.store(at, out.to(out_ptr.dtype.element_ty), mask=token[:, None] < S)


def valid(params, shape):
    """Tiles fit in registers and shared memory."""
    chunk, columns, D = params["CHUNK"], params["BLOCK_V"], shape["D"]
    item = 4 if shape.get("dtype") == "float32" else 2
    held = (max(D * columns, chunk * chunk) + chunk * columns) / (32 * params["num_warps"])
    shared = (2 * chunk * D + chunk * columns + D * columns + chunk * chunk) * item
    return columns <= D and 4 <= held <= 256 and shared <= 220 * 1024


def kernel(q, k, v, fade, *, CHUNK=64, BLOCK_V=32, CELLS=256, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    chunks = triton.cdiv(S, CHUNK)
    memory = torch.empty((B * H, chunks, D, D), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    grid, launch = (D // BLOCK_V, chunks, B * H), {"num_warps": num_warps, "num_stages": num_stages}
    added_kernel[grid](k, v, fade, memory, H, S, D, CHUNK, BLOCK_V, **launch)
    memories_kernel[(D * D // CELLS, B * H)](memory, fade, H, chunks, D * D, CHUNK, CELLS)
    results_kernel[grid](q, k, v, fade, memory, out, H, S, D, CHUNK, BLOCK_V, **launch)
    return out
