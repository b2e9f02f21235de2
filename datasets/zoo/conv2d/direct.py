"""No tensor cores: a strip of one output row by a block of filters, an outer product a channel."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STRIP": [4, 8, 16, 32, 64],
    "BLOCK_K": [16, 32, 64, 128],
    "UNROLL": [1, 2, 4],
    "ROWS_LAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def direct_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C, K, P, Q, STRIDE,
    R: tl.constexpr, STRIP: tl.constexpr, BLOCK_K: tl.constexpr, UNROLL: tl.constexpr,
    ROWS_LAST: tl.constexpr,
):  # fmt: skip
    strips, blocks = tl.cdiv(Q, STRIP), tl.cdiv(K, BLOCK_K)
    if ROWS_LAST:
        line, rest = tl.program_id(0) // (strips * blocks), tl.program_id(0) % (strips * blocks)
        strip, block = rest // blocks, rest % blocks
    else:
        lines = tl.num_programs(0) // (strips * blocks)
        line, rest = tl.program_id(0) % lines, tl.program_id(0) // lines
        strip, block = rest % strips, rest // strips
    image, p = line // P, line % P
    q = strip * STRIP + tl.arange(0, STRIP)
    k = block * BLOCK_K + tl.arange(0, BLOCK_K)
    acc = tl.zeros((STRIP, BLOCK_K), dtype=tl.float32)
    for tap in range(R * R):
        y = p * STRIDE + tap // R - R // 2
        z = q * STRIDE + tap % R - R // 2
        there = (q < Q) & (z >= 0) & (z < W) & (y >= 0) & (y < H)
        pixel = x_ptr + ((image * H + y) * W + z) * C
        taps = weight_ptr + (k * R * R + tap) * C
        for c in tl.range(0, C, loop_unroll_factor=UNROLL):
            x = tl.load(pixel + c, mask=there, other=0.0).to(tl.float32)
            w = tl.load(taps + c, mask=k < K, other=0.0).to(tl.float32)
            acc += x[:, None] * w[None, :]
    inside = (q[:, None] < Q) & (k[None, :] < K)
    out = out_ptr + (line * Q + q[:, None]) * K + k[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two (eight for large problems) to 32 sums a thread; strips not far longer than a row."""
    strip, k = params["STRIP"], params["BLOCK_K"]
    width = (shape["W"] - 1) // shape["STRIDE"] + 1
    height = (shape["H"] - 1) // shape["STRIDE"] + 1
    outputs = shape["B"] * height * width * shape["K"]
    fits = strip < 2 * width and k < 2 * shape["K"]
    least = 8 if outputs * shape["R"] ** 2 * shape["C"] > 1e9 else 2
    return fits and least <= strip * k / (32 * params["num_warps"]) <= 32


def kernel(x, weight, stride, *, STRIP=8, BLOCK_K=64, UNROLL=2, ROWS_LAST=True, num_warps=2):
    B, H, W, C = x.shape
    K, R = weight.shape[:2]
    P, Q = (H - 1) // stride + 1, (W - 1) // stride + 1
    out = torch.empty((B, P, Q, K), dtype=x.dtype, device=x.device)
    grid = (B * P * triton.cdiv(Q, STRIP) * triton.cdiv(K, BLOCK_K),)
    direct_kernel[grid](
        x, weight, out, H, W, C, K, P, Q, stride, R, STRIP, BLOCK_K, UNROLL, ROWS_LAST,
        num_warps=num_warps,
    )  # fmt: skip
    return out
