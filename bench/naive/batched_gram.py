"""Gram matrices of many small sets of vectors: outer products of one vector after another."""

import torch
import triton
import triton.language as tl

SHAPES = [{"sets": 2048, "points": 128}]
HELD_OUT_SHAPES = [{"sets": 300, "points": 77}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-1}


def reference(points):
    p = points.float()
    return p.transpose(1, 2) @ p


def inputs(sets=2048, points=128, dim=32, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(sets, points, dim, dtype=dtype, device=device),)


@triton.jit
def gram_kernel(p_ptr, g_ptr, n_points, DIM: tl.constexpr):
    which = tl.program_id(0)
    d = tl.arange(0, DIM)
    gram = tl.zeros((DIM, DIM), dtype=tl.float32)
    for i in range(n_points):
        v = tl.load(p_ptr + (which * n_points + i) * DIM + d).to(tl.float32)
        gram += v[:, None] * v[None, :]
    tl.store(g_ptr + which * DIM * DIM + d[:, None] * DIM + d[None, :], gram)


def kernel(points):
    sets, n_points, dim = points.shape
    gram = torch.empty((sets, dim, dim), dtype=torch.float32, device=points.device)
    gram_kernel[(sets,)](points, gram, n_points, DIM=dim)
    return gram
