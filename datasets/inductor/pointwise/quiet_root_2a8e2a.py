"""Pointwise by Inductor: of quiet_root, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.006}


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
    tmp1 = tmp0 * tmp0
    tmp2 = tl.full([1], 0.001, tl.float32)
    tmp3 = tmp1 + tmp2
    tmp4 = tl.sqrt_rn(tmp3)
    tmp5 = tl_math.abs(tmp0)
    tmp6 = tl.full([1], 1.0, tl.float32)
    tmp7 = tmp5 + tmp6
    tmp8 = libdevice.rsqrt(tmp7)
    tmp9 = tmp4 - tmp8
    tl.store(out_ptr0 + (x0 + 4032*x1), tmp9, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2037527 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    mul = aten.mul.Tensor(x_1, x_1)
    add = aten.add.Tensor(mul, 0.001)
    sqrt = aten.sqrt.default(add)
    abs_1 = aten.abs.default(x_1)
    add_1 = aten.add.Tensor(abs_1, 1.0)
    rsqrt = aten.rsqrt.default(add_1)
    sub = aten.sub.Tensor(sqrt, rsqrt)
    return sub.to(torch.float16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2037527, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2037527, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
