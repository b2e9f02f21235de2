"""Pointwise by Inductor: of geglu, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 4e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1665333
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 5001)
    x1 = xindex // 5001
    tmp0 = tl.load(in_ptr0 + (x2), xmask)
    tmp9 = tl.load(in_ptr1 + (x2), xmask)
    tmp1 = tl.full([1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.full([1], 0.7071067811865476, tl.float32)
    tmp4 = tmp0 * tmp3
    tmp5 = libdevice.erf(tmp4)
    tmp6 = tl.full([1], 1.0, tl.float32)
    tmp7 = tmp5 + tmp6
    tmp8 = tmp2 * tmp7
    tmp10 = tmp8 * tmp9
    tmp11 = tmp10 * tmp9
    tmp12 = tmp7 * tmp1
    tmp13 = tmp0 * tmp0
    tmp14 = tl.full([1], -0.5, tl.float32)
    tmp15 = tmp13 * tmp14
    tmp16 = libdevice.exp(tmp15)
    tmp17 = tl.full([1], 0.3989422804014327, tl.float32)
    tmp18 = tmp16 * tmp17
    tmp19 = tmp0 * tmp18
    tmp20 = tmp12 + tmp19
    tmp21 = tmp11 * tmp20
    tmp22 = tmp10 * tmp8
    tl.store(out_ptr0 + (x0 + 5024*x1), tmp10, xmask)
    tl.store(out_ptr1 + (x0 + 5024*x1), tmp21, xmask)
    tl.store(out_ptr2 + (x0 + 5024*x1), tmp22, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1665333 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    arg1_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    arg0_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    return (arg1_1, arg0_1,)


def reference(arg1_1, arg0_1):
    mul = aten.mul.Tensor(arg1_1, 0.5)
    mul_1 = aten.mul.Tensor(arg1_1, 0.7071067811865476)
    erf = aten.erf.default(mul_1)
    add = aten.add.Tensor(erf, 1)
    mul_2 = aten.mul.Tensor(mul, add)
    mul_3 = aten.mul.Tensor(mul_2, arg0_1)
    mul_4 = aten.mul.Tensor(mul_3, mul_2)
    mul_5 = aten.mul.Tensor(mul_3, arg0_1)
    mul_6 = aten.mul.Tensor(arg1_1, 0.7071067811865476)
    erf_1 = aten.erf.default(mul_6)
    add_1 = aten.add.Tensor(erf_1, 1)
    mul_7 = aten.mul.Tensor(add_1, 0.5)
    mul_8 = aten.mul.Tensor(arg1_1, arg1_1)
    mul_9 = aten.mul.Tensor(mul_8, -0.5)
    exp = aten.exp.default(mul_9)
    mul_10 = aten.mul.Tensor(exp, 0.3989422804014327)
    mul_11 = aten.mul.Tensor(arg1_1, mul_10)
    add_2 = aten.add.Tensor(mul_7, mul_11)
    mul_12 = aten.mul.Tensor(mul_5, add_2)
    return mul_3, mul_12, mul_4


def kernel(arg1_1, arg0_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg1_1.device)
    out_ptr1 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg1_1.device)
    out_ptr2 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg1_1.device)
    grid = (triton.cdiv(1665333, XBLOCK),)
    fused_kernel[grid](arg1_1, arg0_1, out_ptr0, out_ptr1, out_ptr2, 1665333, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
