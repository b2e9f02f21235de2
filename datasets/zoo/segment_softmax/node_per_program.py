"""A program takes a node and all heads; its edges are read twice, at first online."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.segment_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "EDGES": [4, 8, 16, 32, 64, 128, 256],
    "STAGES": [1, 2],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def node_kernel(
    scores_ptr, offsets_ptr, out_ptr,
    H: tl.constexpr, WIDE: tl.constexpr, EDGES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = tl.load(offsets_ptr + tl.program_id(0))
    end = tl.load(offsets_ptr + tl.program_id(0) + 1)
    head = tl.arange(0, WIDE)
    most = tl.full((WIDE,), -3e38, tl.float32)
    total = tl.zeros((WIDE,), dtype=tl.float32)
    for start in tl.range(first, end, EDGES, num_stages=STAGES):
        edge = start + tl.arange(0, EDGES)
        mask = (edge[:, None] < end) & (head[None, :] < H)
        at = edge[:, None] * H + head[None, :]
        s = tl.load(scores_ptr + at, mask=mask, other=-3e38).to(tl.float32)
        here = tl.maximum(most, tl.max(s, axis=0))
        e = tl.where(mask, tl.exp(s - here[None, :]), 0.0)
        total = total * tl.exp(most - here) + tl.sum(e, axis=0)
        most = here
    for start in tl.range(first, end, EDGES, num_stages=STAGES):
        edge = start + tl.arange(0, EDGES)
        mask = (edge[:, None] < end) & (head[None, :] < H)
        at = edge[:, None] * H + head[None, :]
        s = tl.load(scores_ptr + at, mask=mask, other=0.0).to(tl.float32)
        share = tl.exp(s - most[None, :]) / total[None, :]
        tl.store(out_ptr + at, share.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 32 scores a thread."""
    wide = 1 << (shape["H"] - 1).bit_length()
    return 1 <= params["EDGES"] * wide / (32 * params["num_warps"]) <= 32


def kernel(scores, nodes, offsets, *, EDGES=64, STAGES=1, num_warps=2):
    H = scores.shape[1]
    out = torch.empty_like(scores)
    node_kernel[(offsets.shape[0] - 1,)](
        scores, offsets, out, H, triton.next_power_of_2(H), EDGES, STAGES, num_warps=num_warps
    )
    return out
