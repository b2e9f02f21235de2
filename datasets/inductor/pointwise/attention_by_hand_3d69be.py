"""Pointwise by Inductor: of attention_by_hand, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 8e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 1024
    xnumel = 256
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x2 = xindex
    y0 = (yindex % 512)
    y1 = yindex // 512
    y3 = yindex
    tmp0 = tl.load(in_ptr0 + (y0 + 512*x2 + 131072*y1), xmask)
    tl.store(out_ptr0 + (x2 + 256*y3), tmp0, xmask)


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    k_1 = torch.randn((2, 256, 512), dtype=torch.float32, device=device)
    return (k_1,)


def reference(k_1):
    view_1 = aten.reshape.default(k_1, [2, 256, 8, 64])
    permute_1 = aten.permute.default(view_1, [0, 2, 1, 3])
    permute_3 = aten.permute.default(permute_1, [0, 1, 3, 2])
    expand_1 = aten.expand.default(permute_3, [2, 8, 64, 256])
    clone_1 = aten.clone.default(expand_1, memory_format=torch.contiguous_format)
    return clone_1


def kernel(k_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2, 8, 64, 256), (131072, 16384, 256, 1), dtype=torch.float32, device=k_1.device)
    grid = (triton.cdiv(256, XBLOCK), triton.cdiv(1024, YBLOCK),)
    fused_kernel[grid](k_1, out_ptr0, 1024, 256, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
