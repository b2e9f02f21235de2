"""Pointwise by Inductor: of safe_logarithm, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.005}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2037527
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 4003)
    x1 = xindex // 4003
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp1 = tl_math.abs(tmp0)
    tmp2 = libdevice.log1p(tmp1)
    tmp3 = tl.full([1], 0, tl.int32)
    tmp4 = tmp3 < tmp0
    tmp5 = tmp4.to(tl.int8)
    tmp6 = tmp0 < tmp3
    tmp7 = tmp6.to(tl.int8)
    tmp8 = tmp5 - tmp7
    tmp9 = tmp8.to(tmp0.dtype)
    tmp10 = tmp2 * tmp9
    tl.store(out_ptr0 + (x0 + 4032*x1), tmp10, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2037527 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    abs_1 = aten.abs.default(x_1)
    log1p = aten.log1p.default(abs_1)
    sign = aten.sign.default(x_1)
    mul = aten.mul.Tensor(log1p, sign)
    return mul.to(torch.float16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2037527, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2037527, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
