"""Pointwise by Inductor: of positions_sinusoid, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 9e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 2048
    xnumel = 1024
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[2048, 1024], strides=[1024, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[1])
    tmp1 = (x1).to(tl.float32)
    tmp2 = (tmp1).to(tl.float32)
    tmp3 = tl.full([1, 1], -0.01, tl.float32)
    tmp4 = tmp2 * tmp3
    tmp5 = libdevice.exp(tmp4)
    tmp6 = (y0).to(tl.float32)
    tmp7 = (tmp6).to(tl.float32)
    tmp8 = tmp7 * tmp5
    tmp9 = tl_math.sin(tmp8)
    tmp10 = tmp0 + tmp9
    tl.store(tl.make_block_ptr(out_ptr0, shape=[2048, 1024], strides=[1024, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp10, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    iota = torch.ops.prims.iota.default(2048, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze = aten.unsqueeze.default(iota, 1)
    iota_1 = torch.ops.prims.iota.default(1024, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    mul = aten.mul.Tensor(iota_1, -0.01)
    exp = aten.exp.default(mul)
    mul_1 = aten.mul.Tensor(unsqueeze, exp)
    sin = aten.sin.default(mul_1)
    add = aten.add.Tensor(x_1, sin)
    return add


def kernel(x_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1024, XBLOCK), triton.cdiv(2048, YBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2048, 1024, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
