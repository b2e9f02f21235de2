"""Pointwise by Inductor: of geglu, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.007}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)
    tmp11 = tl.load(in_ptr1 + (x0), None).to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.full([1], 0.5, tl.float32)
    tmp3 = tmp1 * tmp2
    tmp4 = tl.full([1], 0.7071067811865476, tl.float32)
    tmp5 = tmp1 * tmp4
    tmp6 = libdevice.erf(tmp5)
    tmp7 = tl.full([1], 1.0, tl.float32)
    tmp8 = tmp6 + tmp7
    tmp9 = tmp3 * tmp8
    tmp10 = tmp9.to(tl.float32)
    tmp12 = tmp10 * tmp11
    tmp13 = tmp12 * tmp11
    tmp14 = tmp13.to(tl.float32)
    tmp15 = tmp8 * tmp2
    tmp16 = tmp1 * tmp1
    tmp17 = tl.full([1], -0.5, tl.float32)
    tmp18 = tmp16 * tmp17
    tmp19 = libdevice.exp(tmp18)
    tmp20 = tl.full([1], 0.3989422804014327, tl.float32)
    tmp21 = tmp19 * tmp20
    tmp22 = tmp1 * tmp21
    tmp23 = tmp15 + tmp22
    tmp24 = tmp14 * tmp23
    tmp25 = tmp24.to(tl.float32)
    tmp26 = tmp12 * tmp10
    tl.store(out_ptr0 + (x0), tmp12, None)
    tl.store(out_ptr1 + (x0), tmp25, None)
    tl.store(out_ptr2 + (x0), tmp26, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    arg1_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    arg0_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (arg1_1, arg0_1,)


def reference(arg1_1, arg0_1):
    convert_element_type = arg1_1.to(torch.float32)
    mul = aten.mul.Tensor(convert_element_type, 0.5)
    mul_1 = aten.mul.Tensor(convert_element_type, 0.7071067811865476)
    erf = aten.erf.default(mul_1)
    add = aten.add.Tensor(erf, 1)
    mul_2 = aten.mul.Tensor(mul, add)
    arg0_1 = arg0_1.float()
    mul_3 = aten.mul.Tensor(mul_2, arg0_1)
    mul_4 = aten.mul.Tensor(mul_3, mul_2)
    mul_5 = aten.mul.Tensor(mul_3, arg0_1)
    convert_element_type_3 = arg1_1.to(torch.float32)
    mul_6 = aten.mul.Tensor(convert_element_type_3, 0.7071067811865476)
    erf_1 = aten.erf.default(mul_6)
    add_1 = aten.add.Tensor(erf_1, 1)
    mul_7 = aten.mul.Tensor(add_1, 0.5)
    mul_8 = aten.mul.Tensor(convert_element_type_3, convert_element_type_3)
    mul_9 = aten.mul.Tensor(mul_8, -0.5)
    exp = aten.exp.default(mul_9)
    mul_10 = aten.mul.Tensor(exp, 0.3989422804014327)
    mul_11 = aten.mul.Tensor(convert_element_type_3, mul_10)
    add_2 = aten.add.Tensor(mul_7, mul_11)
    mul_12 = aten.mul.Tensor(mul_5, add_2)
    return mul_3.to(torch.bfloat16), mul_12.to(torch.bfloat16), mul_4.to(torch.bfloat16)


def kernel(arg1_1, arg0_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg1_1.device)
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg1_1.device)
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg1_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](arg1_1, arg0_1, out_ptr0, out_ptr1, out_ptr2, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
