"""Causal depthwise convolution along time: each channel with four weights of its own, then SiLU."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

TAPS = 4
SHAPES = [{"B": 8, "T": 4096, "C": 1024}]
SPACE = {
    "BLOCK_T": [1, 4, 16, 32, 64, 128],
    "BLOCK_C": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
}
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(x, weight):
    padded = F.pad(x.transpose(1, 2), (TAPS - 1, 0))
    return F.silu(F.conv1d(padded, weight[:, None, :], groups=x.shape[2])).transpose(1, 2)


def inputs(B=8, T=4096, C=1024, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, T, C, dtype=dtype, device=device)
    return x, torch.randn(C, TAPS, dtype=dtype, device=device)


@triton.jit
def conv1d_kernel(
    x_ptr, weight_ptr, out_ptr, T, C,
    TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(2) * T * C
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_T, BLOCK_C), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        at = t - (TAPS - 1) + tap
        inside = (at[:, None] >= 0) & (at[:, None] < T) & (c[None, :] < C)
        x = tl.load(x_ptr + entry + at[:, None] * C + c[None, :], mask=inside, other=0.0)
        weight = tl.load(weight_ptr + c * TAPS + tap, mask=c < C, other=0.0)
        acc += x.to(tl.float32) * weight.to(tl.float32)[None, :]
    out = (acc * tl.sigmoid(acc)).to(out_ptr.dtype.element_ty)
    inside = (t[:, None] < T) & (c[None, :] < C)
    tl.store(out_ptr + entry + t[:, None] * C + c[None, :], out, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["BLOCK_T"] * params["BLOCK_C"] / (32 * params["num_warps"]) <= 64


def kernel(x, weight, *, BLOCK_T=16, BLOCK_C=128, num_warps=4):
    B, T, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK_C), triton.cdiv(T, BLOCK_T), B)
    conv1d_kernel[grid](x, weight, out, T, C, TAPS, BLOCK_T, BLOCK_C, num_warps=num_warps)
    return out
