"""Foreach by Inductor: of foreach_adam, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, in_ptr5, in_ptr6, in_ptr7, in_ptr8, in_ptr9, in_ptr10, in_ptr11, out_ptr0, out_ptr1, out_ptr2, out_ptr3, out_ptr4, out_ptr5, out_ptr6, out_ptr7, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(1048576, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(512, XBLOCK)
    num_xblocks_2 = num_xblocks_1 + tl.cdiv(99900, XBLOCK)
    num_xblocks_3 = num_xblocks_2 + tl.cdiv(17, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 1048576
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = tl.full([XBLOCK], True, tl.int1)[:]
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)
        tmp3 = tl.load(in_ptr1 + (x0), None).to(tl.float32)
        tmp6 = tl.load(in_ptr2 + (x0), None).to(tl.float32)
        tmp1 = tl.full([1], 0.9, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp4 = tl.full([1], 0.1, tl.float32)
        tmp5 = tl.fma(tmp3, tmp4, tmp2)
        tmp7 = tl_math.abs(tmp3)
        tmp8 = tl.sqrt_rn(tmp7)
        tmp9 = tl.full([1], 0.001, tl.float32)
        tmp10 = tmp8 + tmp9
        tmp11 = (tmp5 / tmp10)
        tmp12 = tmp11 * tmp9
        tmp13 = tmp6 - tmp12
        tl.store(out_ptr0 + (x0), tmp5, None)
        tl.store(out_ptr1 + (x0), tmp13, None)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp14 = tl.load(in_ptr3 + (x1), xmask).to(tl.float32)
        tmp17 = tl.load(in_ptr4 + (x1), xmask).to(tl.float32)
        tmp20 = tl.load(in_ptr5 + (x1), xmask).to(tl.float32)
        tmp15 = tl.full([1], 0.9, tl.float32)
        tmp16 = tmp14 * tmp15
        tmp18 = tl.full([1], 0.1, tl.float32)
        tmp19 = tl.fma(tmp17, tmp18, tmp16)
        tmp21 = tl_math.abs(tmp17)
        tmp22 = tl.sqrt_rn(tmp21)
        tmp23 = tl.full([1], 0.001, tl.float32)
        tmp24 = tmp22 + tmp23
        tmp25 = (tmp19 / tmp24)
        tmp26 = tmp25 * tmp23
        tmp27 = tmp20 - tmp26
        tl.store(out_ptr2 + (x1), tmp19, xmask)
        tl.store(out_ptr3 + (x1), tmp27, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 99900
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x2 = xindex
        tmp28 = tl.load(in_ptr6 + (x2), xmask).to(tl.float32)
        tmp31 = tl.load(in_ptr7 + (x2), xmask).to(tl.float32)
        tmp34 = tl.load(in_ptr8 + (x2), xmask).to(tl.float32)
        tmp29 = tl.full([1], 0.9, tl.float32)
        tmp30 = tmp28 * tmp29
        tmp32 = tl.full([1], 0.1, tl.float32)
        tmp33 = tl.fma(tmp31, tmp32, tmp30)
        tmp35 = tl_math.abs(tmp31)
        tmp36 = tl.sqrt_rn(tmp35)
        tmp37 = tl.full([1], 0.001, tl.float32)
        tmp38 = tmp36 + tmp37
        tmp39 = (tmp33 / tmp38)
        tmp40 = tmp39 * tmp37
        tmp41 = tmp34 - tmp40
        tl.store(out_ptr4 + (x2), tmp33, xmask)
        tl.store(out_ptr5 + (x2), tmp41, xmask)
    elif pid < num_xblocks_3:
        pid_offset = pid - num_xblocks_2
        xnumel = 17
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x3 = xindex
        tmp42 = tl.load(in_ptr9 + (x3), xmask).to(tl.float32)
        tmp45 = tl.load(in_ptr10 + (x3), xmask).to(tl.float32)
        tmp48 = tl.load(in_ptr11 + (x3), xmask).to(tl.float32)
        tmp43 = tl.full([1], 0.9, tl.float32)
        tmp44 = tmp42 * tmp43
        tmp46 = tl.full([1], 0.1, tl.float32)
        tmp47 = tl.fma(tmp45, tmp46, tmp44)
        tmp49 = tl_math.abs(tmp45)
        tmp50 = tl.sqrt_rn(tmp49)
        tmp51 = tl.full([1], 0.001, tl.float32)
        tmp52 = tmp50 + tmp51
        tmp53 = (tmp47 / tmp52)
        tmp54 = tmp53 * tmp51
        tmp55 = tmp48 - tmp54
        tl.store(out_ptr6 + (x3), tmp47, xmask)
        tl.store(out_ptr7 + (x3), tmp55, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg8_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    arg4_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    arg0_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    arg9_1 = torch.empty((512,), dtype=torch.bfloat16, device=device).normal_(0.0634, 1.02)
    arg5_1 = torch.empty((512,), dtype=torch.bfloat16, device=device).normal_(0.0544, 0.979)
    arg1_1 = torch.randn((512,), dtype=torch.bfloat16, device=device)
    arg10_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    arg6_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    arg2_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    arg11_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(-0.0806, 0.492)
    arg7_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(0.0549, 0.777)
    arg3_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(-0.417, 0.92)
    return (arg8_1, arg4_1, arg0_1, arg9_1, arg5_1, arg1_1, arg10_1, arg6_1, arg2_1, arg11_1, arg7_1, arg3_1,)


def reference(arg8_1, arg4_1, arg0_1, arg9_1, arg5_1, arg1_1, arg10_1, arg6_1, arg2_1, arg11_1, arg7_1, arg3_1):
    arg8_1 = arg8_1.float()
    arg9_1 = arg9_1.float()
    arg10_1 = arg10_1.float()
    arg11_1 = arg11_1.float()
    _foreach_mul = aten._foreach_mul.Scalar([arg8_1, arg9_1, arg10_1, arg11_1], 0.9)
    getitem = _foreach_mul[0]
    getitem_1 = _foreach_mul[1]
    getitem_2 = _foreach_mul[2]
    getitem_3 = _foreach_mul[3]
    arg4_1 = arg4_1.float()
    arg5_1 = arg5_1.float()
    arg6_1 = arg6_1.float()
    arg7_1 = arg7_1.float()
    _foreach_add = aten._foreach_add.List([getitem, getitem_1, getitem_2, getitem_3], [arg4_1, arg5_1, arg6_1, arg7_1], alpha=0.1)
    getitem_4 = _foreach_add[0]
    getitem_5 = _foreach_add[1]
    getitem_6 = _foreach_add[2]
    getitem_7 = _foreach_add[3]
    _foreach_abs = aten._foreach_abs.default([arg4_1, arg5_1, arg6_1, arg7_1])
    getitem_8 = _foreach_abs[0]
    getitem_9 = _foreach_abs[1]
    getitem_10 = _foreach_abs[2]
    getitem_11 = _foreach_abs[3]
    _foreach_sqrt = aten._foreach_sqrt.default([getitem_8, getitem_9, getitem_10, getitem_11])
    getitem_12 = _foreach_sqrt[0]
    getitem_13 = _foreach_sqrt[1]
    getitem_14 = _foreach_sqrt[2]
    getitem_15 = _foreach_sqrt[3]
    _foreach_add_1 = aten._foreach_add.Scalar([getitem_12, getitem_13, getitem_14, getitem_15], 0.001)
    getitem_16 = _foreach_add_1[0]
    getitem_17 = _foreach_add_1[1]
    getitem_18 = _foreach_add_1[2]
    getitem_19 = _foreach_add_1[3]
    _foreach_div = aten._foreach_div.List([getitem_4, getitem_5, getitem_6, getitem_7], [getitem_16, getitem_17, getitem_18, getitem_19])
    getitem_20 = _foreach_div[0]
    getitem_21 = _foreach_div[1]
    getitem_22 = _foreach_div[2]
    getitem_23 = _foreach_div[3]
    arg0_1 = arg0_1.float()
    arg1_1 = arg1_1.float()
    arg2_1 = arg2_1.float()
    arg3_1 = arg3_1.float()
    _foreach_sub = aten._foreach_sub.List([arg0_1, arg1_1, arg2_1, arg3_1], [getitem_20, getitem_21, getitem_22, getitem_23], alpha=0.001)
    getitem_24 = _foreach_sub[0]
    getitem_25 = _foreach_sub[1]
    getitem_26 = _foreach_sub[2]
    getitem_27 = _foreach_sub[3]
    return getitem_4.to(torch.bfloat16), getitem_24.to(torch.bfloat16), getitem_5.to(torch.bfloat16), getitem_25.to(torch.bfloat16), getitem_6.to(torch.bfloat16), getitem_26.to(torch.bfloat16), getitem_7.to(torch.bfloat16), getitem_27.to(torch.bfloat16)


def kernel(arg8_1, arg4_1, arg0_1, arg9_1, arg5_1, arg1_1, arg10_1, arg6_1, arg2_1, arg11_1, arg7_1, arg3_1, *, XBLOCK=1024, num_warps=8, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 512), (512, 1), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr1 = torch.empty_strided((2048, 512), (512, 1), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr2 = torch.empty_strided((512,), (1,), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr3 = torch.empty_strided((512,), (1,), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr4 = torch.empty_strided((100, 999), (999, 1), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr5 = torch.empty_strided((100, 999), (999, 1), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr6 = torch.empty_strided((17,), (1,), dtype=torch.bfloat16, device=arg8_1.device)
    out_ptr7 = torch.empty_strided((17,), (1,), dtype=torch.bfloat16, device=arg8_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(512, XBLOCK) + triton.cdiv(99900, XBLOCK) + triton.cdiv(17, XBLOCK),)
    fused_kernel[grid](arg8_1, arg4_1, arg0_1, arg9_1, arg5_1, arg1_1, arg10_1, arg6_1, arg2_1, arg11_1, arg7_1, arg3_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, out_ptr4, out_ptr5, out_ptr6, out_ptr7, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3, out_ptr4, out_ptr5, out_ptr6, out_ptr7
