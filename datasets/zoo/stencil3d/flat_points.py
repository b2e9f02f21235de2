"""All points in one line, their neighbours at fixed distances, the faces found by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil3d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "POLICY": ["", "evict_last"],
    "PROGRAMS": [0, 1056, 2112],
    "REMAINDERS": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def neighbour(u_ptr, at, mask, POLICY: tl.constexpr):
    return tl.load(u_ptr + at, mask=mask, other=0.0, eviction_policy=POLICY).to(tl.float32)


@triton.jit
def line_kernel(
    u_ptr, out_ptr, X, Y, Z, total,
    BLOCK: tl.constexpr, POLICY: tl.constexpr, REMAINDERS: tl.constexpr,
):  # fmt: skip
    plane = Y * Z
    for start in range(tl.program_id(0) * BLOCK, total, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < total
        if REMAINDERS:
            z, on_plane = at % Z, at % plane
            first_y, last_y = on_plane < Z, on_plane >= plane - Z
        else:
            line = at // Z
            z = at - line * Z
            y = line - line // Y * Y
            first_y, last_y = y == 0, y == Y - 1
        acc = 0.4 * neighbour(u_ptr, at, inside, POLICY)
        side = neighbour(u_ptr, at - 1, inside & (z > 0), POLICY)
        side += neighbour(u_ptr, at + 1, inside & (z < Z - 1), POLICY)
        side += neighbour(u_ptr, at - Z, inside & (first_y == 0), POLICY)
        side += neighbour(u_ptr, at + Z, inside & (last_y == 0), POLICY)
        side += neighbour(u_ptr, at - plane, inside & (at >= plane), POLICY)
        side += neighbour(u_ptr, at + plane, at < total - plane, POLICY)
        tl.store(out_ptr + at, (acc + 0.1 * side).to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 points a thread; PROGRAMS = 0 stands for one a block."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(u, *, BLOCK=512, POLICY="", PROGRAMS=0, REMAINDERS=False, num_warps=4):
    X, Y, Z = u.shape
    out = torch.empty_like(u)
    total = u.numel()
    blocks = triton.cdiv(total, BLOCK)
    line_kernel[(min(PROGRAMS or blocks, blocks),)](
        u, out, X, Y, Z, total, BLOCK, POLICY, REMAINDERS, num_warps=num_warps
    )
    return out
