"""Pointwise by Inductor: of transpose_scale, float16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 4003
    xnumel = 509
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(in_ptr0 + (y0 + 4003*x1), xmask & ymask).to(tl.float32)
    tmp1 = tl.full([1, 1], 2.0, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.full([1, 1], 1.0, tl.float32)
    tmp4 = tmp2 + tmp3
    tl.store(out_ptr0 + (x1 + 509*y0), tmp4, xmask & ymask)


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2037527 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    mul = aten.mul.Tensor(x_1, 2)
    add = aten.add.Tensor(mul, 1)
    permute = aten.permute.default(add, [1, 0])
    clone = aten.clone.default(permute, memory_format=torch.contiguous_format)
    return clone.to(torch.float16)


def kernel(x_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((4003, 509), (509, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(509, XBLOCK), triton.cdiv(4003, YBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 4003, 509, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
