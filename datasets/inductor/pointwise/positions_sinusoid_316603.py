"""Pointwise by Inductor: of positions_sinusoid, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.008}


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
    tmp1 = (x0).to(tl.float32)
    tmp2 = (tmp1).to(tl.float32)
    tmp3 = tl.full([1], -0.01, tl.float32)
    tmp4 = tmp2 * tmp3
    tmp5 = libdevice.exp(tmp4)
    tmp6 = (x1).to(tl.float32)
    tmp7 = (tmp6).to(tl.float32)
    tmp8 = tmp7 * tmp5
    tmp9 = tl_math.sin(tmp8)
    tmp10 = tmp9.to(tl.float32)
    tmp11 = tmp0 + tmp10
    tl.store(out_ptr0 + (x0 + 4032*x1), tmp11, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2037527 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    iota = torch.ops.prims.iota.default(509, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze = aten.unsqueeze.default(iota, 1)
    iota_1 = torch.ops.prims.iota.default(4003, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    mul = aten.mul.Tensor(iota_1, -0.01)
    exp = aten.exp.default(mul)
    mul_1 = aten.mul.Tensor(unsqueeze, exp)
    sin = aten.sin.default(mul_1)
    x_1 = x_1.float()
    add = aten.add.Tensor(x_1, sin)
    return add.to(torch.float16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2037527, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2037527, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
