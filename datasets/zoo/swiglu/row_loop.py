"""A program a row, walking along it in chunks; the loads of later chunks may be issued ahead."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.swiglu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "STAGES": [1, 2, 3, 4],
    "SPLIT": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def swiglu_row_kernel(
    packed_ptr, out_ptr, N, BLOCK: tl.constexpr, SPLIT: tl.constexpr, STAGES: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    gate_ptr = packed_ptr + row * 2 * N
    up_ptr = gate_ptr + N
    out_ptr += row * N
    for start in tl.range(tl.program_id(1) * BLOCK, N, SPLIT * BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        gate = tl.load(gate_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = gate * up / (1.0 + tl.exp(-gate))
        tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """One to 64 elements a thread, work for each part, and pipelined chunks that fit."""
    size = 4 if shape["dtype"] == "float32" else 2
    held = params["BLOCK"] / (32 * params["num_warps"])
    fits = 2 * params["STAGES"] * params["BLOCK"] * size <= 227 * 1024
    parts = params["SPLIT"] == 1 or params["SPLIT"] * params["BLOCK"] <= shape["N"]
    return 1 <= held <= 64 and fits and parts and params["BLOCK"] < 4 * shape["N"]


def kernel(packed, *, BLOCK=512, SPLIT=1, STAGES=2, num_warps=4):
    M, N = packed.shape[0], packed.shape[1] // 2
    out = torch.empty((M, N), dtype=packed.dtype, device=packed.device)
    swiglu_row_kernel[(M, SPLIT)](packed, out, N, BLOCK, SPLIT, STAGES, num_warps=num_warps)
    return out
