"""Causal depthwise convolution: a program takes one time step and a few channels, tap by tap."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"B": 4, "T": 4096, "C": 2048}]
HELD_OUT_SHAPES = [{"B": 2, "T": 1001, "C": 515}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, w, bias):
    taps = w.shape[1]
    y = F.conv1d(
        F.pad(x.float().transpose(1, 2), (taps - 1, 0)),
        w.float().unsqueeze(1),
        bias.float(),
        groups=x.shape[2],
    )
    return F.silu(y).transpose(1, 2).to(x.dtype)


def inputs(B=4, T=4096, C=2048, K=4, dtype=torch.bfloat16, device="cuda"):
    def make(*shape):
        return torch.randn(*shape, dtype=dtype, device=device)

    return make(B, T, C), make(C, K), make(C)


@triton.jit
def conv_kernel(x_ptr, w_ptr, b_ptr, y_ptr, T, C, sxb, sxt, K: tl.constexpr, BLOCK_C: tl.constexpr):
    b = tl.program_id(2)
    t = tl.program_id(1)
    ch = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    ch_mask = ch < C
    acc = tl.load(b_ptr + ch, mask=ch_mask, other=0.0).to(tl.float32)
    for k in range(K):
        src = t - (K - 1) + k
        xv = tl.load(x_ptr + b * sxb + src * sxt + ch, mask=ch_mask & (src >= 0), other=0.0)
        wv = tl.load(w_ptr + ch * K + k, mask=ch_mask, other=0.0)
        acc += xv.to(tl.float32) * wv.to(tl.float32)
    acc = acc * tl.sigmoid(acc)
    tl.store(y_ptr + b * sxb + t * sxt + ch, acc.to(y_ptr.dtype.element_ty), mask=ch_mask)


def kernel(x, w, bias):
    B, T, C = x.shape
    K = w.shape[1]
    y = torch.empty_like(x)
    BLOCK_C = 64
    conv_kernel[(triton.cdiv(C, BLOCK_C), T, B)](
        x, w, bias, y, T, C, x.stride(0), x.stride(1), K=K, BLOCK_C=BLOCK_C
    )
    return y
