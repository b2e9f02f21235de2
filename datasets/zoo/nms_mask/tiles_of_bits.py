"""Tiles of rows by boxes; bits are shifted to their places and added up to words."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.nms_mask.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "WORDS": [1, 2, 4, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def mark_kernel(boxes_ptr, out_ptr, count, words, ROWS: tl.constexpr, WORDS: tl.constexpr):
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(0) * (WORDS * 32) + tl.arange(0, WORDS * 32)
    left = tl.load(boxes_ptr + 4 * i, mask=i < count, other=0.0)[:, None]
    top = tl.load(boxes_ptr + 4 * i + 1, mask=i < count, other=0.0)[:, None]
    right = tl.load(boxes_ptr + 4 * i + 2, mask=i < count, other=0.0)[:, None]
    bottom = tl.load(boxes_ptr + 4 * i + 3, mask=i < count, other=0.0)[:, None]
    other_left = tl.load(boxes_ptr + 4 * j, mask=j < count, other=0.0)[None, :]
    other_top = tl.load(boxes_ptr + 4 * j + 1, mask=j < count, other=0.0)[None, :]
    other_right = tl.load(boxes_ptr + 4 * j + 2, mask=j < count, other=0.0)[None, :]
    other_bottom = tl.load(boxes_ptr + 4 * j + 3, mask=j < count, other=0.0)[None, :]
    across = tl.maximum(tl.minimum(right, other_right) - tl.maximum(left, other_left), 0.0)
    down = tl.maximum(tl.minimum(bottom, other_bottom) - tl.maximum(top, other_top), 0.0)
    areas = (right - left) * (bottom - top)
    areas += (other_right - other_left) * (other_bottom - other_top)
    bits = (3.0 * across * down > areas) & (j[None, :] > i[:, None]) & (j[None, :] < count)
    place = tl.arange(0, WORDS * 32) % 32
    placed = tl.reshape(bits.to(tl.int32) << place[None, :], (ROWS, WORDS, 32))
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    mask = (i[:, None] < count) & (word[None, :] < words)
    tl.store(out_ptr + i[:, None] * words + word[None, :], tl.sum(placed, axis=2), mask=mask)


def valid(params, shape):
    """One to 32 pairs a thread."""
    return 1 <= params["ROWS"] * params["WORDS"] / params["num_warps"] <= 32


def kernel(boxes, *, ROWS=8, WORDS=4, num_warps=4):
    count = boxes.shape[0]
    words = triton.cdiv(count, 32)
    out = torch.empty((count, words), dtype=torch.int32, device=boxes.device)
    grid = (triton.cdiv(words, WORDS), triton.cdiv(count, ROWS))
    mark_kernel[grid](boxes, out, count, words, ROWS, WORDS, num_warps=num_warps)
    return out
