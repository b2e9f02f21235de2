"""Pointwise by Inductor: of product_of_relu, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.004}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 712000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask).to(tl.float32)
    tmp1 = tl.full([1], 0, tl.int32)
    tmp2 = triton_helpers.maximum(tmp1, tmp0)
    tl.store(out_ptr0 + (x0), tmp2, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((1000, 712), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    relu = aten.relu.default(x_1)
    return relu


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1000, 712), (712, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(712000, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 712000, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
