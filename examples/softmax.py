"""Softmax over the last axis: each row is read once, kept in registers, and written once."""

import torch
import triton
import triton.language as tl

SHAPES = [
    {"M": 16384, "N": 4096},
    {"M": 8192, "N": 8192},
    {"M": 5003, "N": 1001},  # odd rows: every load is masked and none is aligned
]
SPACE = {"ROWS": [1, 2, 4, 8], "num_warps": [2, 4, 8, 16]}
# Probabilities are about 1/N, so only a relative tolerance says anything: two bf16 roundings.
TOLERANCE = {"rtol": 1e-2, "atol": 1e-6}


def reference(x):
    return torch.softmax(x, dim=-1)


def inputs(M=16384, N=4096, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    # 64-bit rows: M * N may exceed 2**31 elements.
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offsets = rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)

    # Columns beyond N weigh exp(-inf) = 0. Rows beyond M turn into NaN, and are never stored.
    x = tl.load(x_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=1)[:, None])
    # One reciprocal a row, not a division an element.
    out = weights * (1.0 / tl.sum(weights, axis=1))[:, None]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """Eight to 64 values a thread: fewer idle, more spill."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    return 8 <= tile / (32 * params["num_warps"]) <= 64


def kernel(x, *, ROWS=1, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    grid = (triton.cdiv(M, ROWS),)
    softmax_kernel[grid](x, out, M, N, ROWS=ROWS, BLOCK=block, num_warps=num_warps)
    return out
