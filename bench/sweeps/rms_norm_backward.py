"""Gradients of RMS normalisation: of x by rows, of the weight as partial sums that are added up."""

import torch
import triton
import triton.language as tl

EPS = 1e-6
SHAPES = [{"M": 8192, "N": 4096}, {"M": 32768, "N": 1024}]
SPACE = {
    "PROGRAMS": [66, 132, 264, 528, 1056],
    "num_warps": [2, 4, 8, 16],
    "BLOCK_N": [16, 64, 128],
}
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(x, weight, dy):
    scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + EPS)
    unit, weighted = x * scale, dy * weight.float()
    dx = scale * (weighted - unit * (weighted * unit).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy * unit).sum(0) / x.shape[0] ** 0.5


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    x, dy = (torch.randn(M, N, dtype=dtype, device=device) for _ in range(2))
    return x, torch.randn(N, dtype=dtype, device=device), dy


@triton.jit
def rows_kernel(x_ptr, weight_ptr, dy_ptr, dx_ptr, part_ptr, M, N, eps, ROWS, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    part = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, min(first + ROWS, M)):
        x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
        unit, weighted = x * scale, dy * weight
        dx = scale * (weighted - unit * (tl.sum(weighted * unit, axis=0) / N))
        tl.store(dx_ptr + row * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        part += dy * unit
    tl.store(part_ptr + tl.program_id(0) * N + cols, part, mask=inside)


@triton.jit
def add_parts_kernel(part_ptr, dw_ptr, parts, N, scale, BLOCK_N: tl.constexpr, ROWS: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    for start in range(0, parts, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < parts) & (cols[None, :] < N)
        total += tl.load(part_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(total, axis=0) * scale, mask=cols < N)


def valid(params, shape):
    """Four to 64 elements of a row a thread."""
    return 4 <= triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"]) <= 64


def kernel(x, weight, dy, *, PROGRAMS=264, num_warps=8, BLOCK_N=64):
    M, N = x.shape
    dx, dw = torch.empty_like(x), torch.empty(N, dtype=torch.float32, device=x.device)
    rows = triton.cdiv(M, PROGRAMS)
    programs = triton.cdiv(M, rows)
    parts = torch.empty((programs, N), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(N)
    rows_kernel[(programs,)](x, weight, dy, dx, parts, M, N, EPS, rows, block, num_warps=num_warps)
    add_parts_kernel[(triton.cdiv(N, BLOCK_N),)](parts, dw, programs, N, M**-0.5, BLOCK_N, 32)
    return dx, dw
