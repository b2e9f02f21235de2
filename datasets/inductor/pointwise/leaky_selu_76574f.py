"""Pointwise by Inductor: of leaky_selu, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

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
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.full([1], 0.0, tl.float32)
    tmp3 = tmp1 > tmp2
    tmp4 = tl.full([1], 1.0507009873554805, tl.float32)
    tmp5 = tmp1 * tmp4
    tmp6 = tl.full([1], 1.0, tl.float32)
    tmp7 = tmp1 * tmp6
    tmp8 = libdevice.expm1(tmp7)
    tmp9 = tl.full([1], 1.7580993408473766, tl.float32)
    tmp10 = tmp8 * tmp9
    tmp11 = tl.where(tmp3, tmp5, tmp10)
    tmp12 = tmp11.to(tl.float32)
    tmp13 = tmp12.to(tl.float32)
    tmp14 = tmp13 > tmp2
    tmp15 = tl.full([1], 0.1, tl.float32)
    tmp16 = tmp13 * tmp15
    tmp17 = tl.where(tmp14, tmp13, tmp16)
    tmp18 = tmp17.to(tl.float32)
    tl.store(out_ptr0 + (x0 + 4032*x1), tmp18, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2037527 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    convert_element_type = x_1.to(torch.float32)
    gt = aten.gt.Scalar(convert_element_type, 0)
    mul = aten.mul.Tensor(convert_element_type, 1.0507009873554805)
    mul_1 = aten.mul.Tensor(convert_element_type, 1.0)
    expm1 = aten.expm1.default(mul_1)
    mul_2 = aten.mul.Tensor(expm1, 1.7580993408473766)
    where = aten.where.self(gt, mul, mul_2)
    gt_1 = aten.gt.Scalar(where, 0)
    mul_3 = aten.mul.Tensor(where, 0.1)
    where_1 = aten.where.self(gt_1, where, mul_3)
    return where_1.to(torch.float16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2037527, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2037527, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
