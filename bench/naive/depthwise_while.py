"""Depthwise convolution along the sequence; taps are counted by a while loop."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"batch": 8, "seqlen": 4096, "dim": 2048}]
HELD_OUT_SHAPES = [{"batch": 3, "seqlen": 1025, "dim": 515}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, weight):
    xt = x.float().transpose(1, 2)
    width = weight.shape[1]
    out = F.conv1d(F.pad(xt, (width - 1, 0)), weight.float()[:, None, :], groups=xt.shape[1])
    return out.transpose(1, 2).to(x.dtype)


def inputs(batch=8, seqlen=4096, dim=2048, width=4, device="cuda"):
    x = torch.randn(batch, seqlen, dim, dtype=torch.bfloat16, device=device)
    return x, torch.randn(dim, width, dtype=torch.bfloat16, device=device)


@triton.jit
def _dwconv(
    x,
    w,
    o,
    seqlen,
    dim,
    width,
    sxb,
    sxl,
    sob,
    sol,
    BLOCK_D: tl.constexpr,
):
    i_b = tl.program_id(2)
    i_l = tl.program_id(1)
    i_d = tl.program_id(0)
    d = i_d * BLOCK_D + tl.arange(0, BLOCK_D)
    dmask = d < dim
    acc = tl.zeros([BLOCK_D], dtype=tl.float32)
    j = 0
    while j < width:
        l = i_l - (width - 1) + j
        if l >= 0:
            xv = tl.load(x + i_b * sxb + l * sxl + d, mask=dmask, other=0.0)
            wv = tl.load(w + d * width + j, mask=dmask, other=0.0)
            acc += xv.to(tl.float32) * wv.to(tl.float32)
        j += 1
    tl.store(o + i_b * sob + i_l * sol + d, acc.to(o.dtype.element_ty), mask=dmask)


def kernel(x, weight):
    b, l, d = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(d, 128), l, b)
    _dwconv[grid](
        x,
        weight,
        out,
        l,
        d,
        weight.shape[1],
        x.stride(0),
        x.stride(1),
        out.stride(0),
        out.stride(1),
        BLOCK_D=128,
    )
    return out
