"""Average pooling of 3 x 3 with stride 2, channels last: one output pixel a program."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"N": 32, "H": 113, "W": 113, "C": 48}]
HELD_OUT_SHAPES = [{"N": 2, "H": 17, "W": 21, "C": 20}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(image):
    y = F.avg_pool2d(image.permute(0, 3, 1, 2).float(), 3, 2, 1, count_include_pad=False)
    return y.permute(0, 2, 3, 1).contiguous().to(image.dtype)


def inputs(N=32, H=113, W=113, C=48, device="cuda"):
    return (torch.randn(N, H, W, C, device=device, dtype=torch.float16),)


@triton.jit
def window_mean(src, dst, H, W, C, OH, OW, PAD_C: tl.constexpr):
    pix = tl.program_id(0)
    b = pix // (OH * OW)
    rest = pix - b * (OH * OW)
    y = rest // OW
    x = rest - y * OW
    c = tl.arange(0, PAD_C)
    total = tl.zeros([PAD_C], dtype=tl.float32)
    seen = 0.0
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            iy = y * 2 + dy
            ix = x * 2 + dx
            inside = (iy >= 0) & (iy < H) & (ix >= 0) & (ix < W)
            ptr = src + ((b * H + iy) * W + ix) * C + c
            total += tl.load(ptr, mask=inside & (c < C), other=0.0).to(tl.float32)
            seen += tl.where(inside, 1.0, 0.0)
    tl.store(dst + pix * C + c, (total / seen).to(tl.float16), mask=c < C)


def kernel(image):
    N, H, W, C = image.shape
    OH, OW = (H + 1) // 2, (W + 1) // 2
    out = torch.empty((N, OH, OW, C), device=image.device, dtype=image.dtype)
    window_mean[(N * OH * OW,)](image, out, H, W, C, OH, OW, PAD_C=triton.next_power_of_2(C))
    return out
