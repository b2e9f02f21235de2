"""Pointwise by Inductor: of transpose_scale, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.04}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 1024
    xnumel = 2048
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(in_ptr0 + (y0 + 1024*x1), xmask).to(tl.float32)
    tmp1 = tl.full([1, 1], 2.0, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.full([1, 1], 1.0, tl.float32)
    tmp4 = tmp2 + tmp3
    tl.store(out_ptr0 + (x1 + 2048*y0), tmp4, xmask)


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    mul = aten.mul.Tensor(x_1, 2)
    add = aten.add.Tensor(mul, 1)
    permute = aten.permute.default(add, [1, 0])
    clone = aten.clone.default(permute, memory_format=torch.contiguous_format)
    return clone.to(torch.bfloat16)


def kernel(x_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 2048), (2048, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK), triton.cdiv(1024, YBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 1024, 2048, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
