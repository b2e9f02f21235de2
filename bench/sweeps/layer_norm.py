"""Layer normalisation, of some rows held in registers or of one that is read in chunks, thrice."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-5
SHAPES = [{"M": 8192, "N": 4096}, {"M": 32768, "N": 768}]
SPACE = {
    "WHOLE": [True, False],
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16, 32],
}
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def reference(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias, EPS)


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    weight, bias = (torch.randn(N, dtype=dtype, device=device) for _ in range(2))
    return x, weight, bias


@triton.jit
def whole_rows_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    offsets = rows[:, None] * N + cols[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(cols[None, :] < N, x - tl.sum(x, axis=1)[:, None] / N, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / N + eps)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    out = centred * scale[:, None] * weight[None, :] + bias[None, :]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def in_chunks_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=0.0).to(tl.float32)
        centred = tl.where(cols < N, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = (x - mean) * scale * weight + bias
        tl.store(out_ptr + row + cols, out.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Two to 128 values a thread; ROWS means something for whole rows alone, BLOCK for chunks."""
    if params["WHOLE"]:
        held = params["ROWS"] * triton.next_power_of_2(shape["N"])
        return params["BLOCK"] == 256 and 2 <= held / (32 * params["num_warps"]) <= 128
    held = params["BLOCK"]
    return params["ROWS"] == 1 and 2 <= held / (32 * params["num_warps"]) <= 128


def kernel(x, weight, bias, *, WHOLE=True, ROWS=1, BLOCK=256, num_warps=8):
    M, N = x.shape
    out = torch.empty_like(x)
    if WHOLE:
        block = triton.next_power_of_2(N)
        whole_rows_kernel[(triton.cdiv(M, ROWS),)](
            x, weight, bias, out, M, N, EPS, ROWS, block, num_warps=num_warps
        )
    else:
        in_chunks_kernel[(M,)](x, weight, bias, out, N, EPS, BLOCK, num_warps=num_warps)
    return out
