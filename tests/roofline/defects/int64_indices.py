"""Expected: "% of them integer". Five 64-bit divisions an element find its place."""

import torch
import triton
import triton.language as tl


def inputs(B=16, C=64, D=16, H=32, W=64, dtype=torch.float16, device="cuda"):
    return (
        torch.randn(B, C, D, H, W, dtype=dtype, device=device),
        torch.randn(C, dtype=dtype, device=device),
    )


def reference(x, bias):
    return x + bias[:, None, None, None]


@triton.jit
def bias_kernel(x, bias, out, sb, sc, sd, sh, C, D, H, W, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    w = at % W
    h = (at // W) % H
    d = (at // W // H) % D
    c = (at // W // H // D) % C
    b = at // W // H // D // C
    place = b * sb + c * sc + d * sd + h * sh + w
    tl.store(out + place, tl.load(x + place) + tl.load(bias + c))


def kernel(x, bias):
    out = torch.empty_like(x)
    C, D, H, W = x.shape[1:]
    bias_kernel[(x.numel() // 1024,)](x, bias, out, *x.stride()[:4], C, D, H, W, BLOCK=1024)
    return out
