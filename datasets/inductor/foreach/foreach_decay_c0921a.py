"""Foreach by Inductor: of foreach_decay, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, in_ptr5, in_ptr6, in_ptr7, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK : tl.constexpr):
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
        tmp1 = tl.full([1], 0.99, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp4 = tl.full([1], 0, tl.int32)
        tmp5 = tmp4 < tmp3
        tmp6 = tmp5.to(tl.int8)
        tmp7 = tmp3 < tmp4
        tmp8 = tmp7.to(tl.int8)
        tmp9 = tmp6 - tmp8
        tmp10 = tmp9.to(tmp3.dtype)
        tmp11 = tl.full([1], 0.01, tl.float32)
        tmp12 = tmp10 * tmp11
        tmp13 = tmp2 - tmp12
        tl.store(out_ptr0 + (x0), tmp13, None)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp14 = tl.load(in_ptr2 + (x1), xmask).to(tl.float32)
        tmp17 = tl.load(in_ptr3 + (x1), xmask).to(tl.float32)
        tmp15 = tl.full([1], 0.99, tl.float32)
        tmp16 = tmp14 * tmp15
        tmp18 = tl.full([1], 0, tl.int32)
        tmp19 = tmp18 < tmp17
        tmp20 = tmp19.to(tl.int8)
        tmp21 = tmp17 < tmp18
        tmp22 = tmp21.to(tl.int8)
        tmp23 = tmp20 - tmp22
        tmp24 = tmp23.to(tmp17.dtype)
        tmp25 = tl.full([1], 0.01, tl.float32)
        tmp26 = tmp24 * tmp25
        tmp27 = tmp16 - tmp26
        tl.store(out_ptr1 + (x1), tmp27, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 99900
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x2 = xindex
        tmp28 = tl.load(in_ptr4 + (x2), xmask).to(tl.float32)
        tmp31 = tl.load(in_ptr5 + (x2), xmask).to(tl.float32)
        tmp29 = tl.full([1], 0.99, tl.float32)
        tmp30 = tmp28 * tmp29
        tmp32 = tl.full([1], 0, tl.int32)
        tmp33 = tmp32 < tmp31
        tmp34 = tmp33.to(tl.int8)
        tmp35 = tmp31 < tmp32
        tmp36 = tmp35.to(tl.int8)
        tmp37 = tmp34 - tmp36
        tmp38 = tmp37.to(tmp31.dtype)
        tmp39 = tl.full([1], 0.01, tl.float32)
        tmp40 = tmp38 * tmp39
        tmp41 = tmp30 - tmp40
        tl.store(out_ptr2 + (x2), tmp41, xmask)
    elif pid < num_xblocks_3:
        pid_offset = pid - num_xblocks_2
        xnumel = 17
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x3 = xindex
        tmp42 = tl.load(in_ptr6 + (x3), xmask).to(tl.float32)
        tmp45 = tl.load(in_ptr7 + (x3), xmask).to(tl.float32)
        tmp43 = tl.full([1], 0.99, tl.float32)
        tmp44 = tmp42 * tmp43
        tmp46 = tl.full([1], 0, tl.int32)
        tmp47 = tmp46 < tmp45
        tmp48 = tmp47.to(tl.int8)
        tmp49 = tmp45 < tmp46
        tmp50 = tmp49.to(tl.int8)
        tmp51 = tmp48 - tmp50
        tmp52 = tmp51.to(tmp45.dtype)
        tmp53 = tl.full([1], 0.01, tl.float32)
        tmp54 = tmp52 * tmp53
        tmp55 = tmp44 - tmp54
        tl.store(out_ptr3 + (x3), tmp55, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    arg4_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    arg1_1 = torch.randn((512,), dtype=torch.bfloat16, device=device)
    arg5_1 = torch.empty((512,), dtype=torch.bfloat16, device=device).normal_(0.0544, 0.979)
    arg2_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    arg6_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    arg3_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(-0.417, 0.92)
    arg7_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(0.0549, 0.777)
    return (arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1,)


def reference(arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1):
    arg0_1 = arg0_1.float()
    arg1_1 = arg1_1.float()
    arg2_1 = arg2_1.float()
    arg3_1 = arg3_1.float()
    _foreach_mul = aten._foreach_mul.Scalar([arg0_1, arg1_1, arg2_1, arg3_1], 0.99)
    getitem = _foreach_mul[0]
    getitem_1 = _foreach_mul[1]
    getitem_2 = _foreach_mul[2]
    getitem_3 = _foreach_mul[3]
    arg4_1 = arg4_1.float()
    arg5_1 = arg5_1.float()
    arg6_1 = arg6_1.float()
    arg7_1 = arg7_1.float()
    _foreach_sign = aten._foreach_sign.default([arg4_1, arg5_1, arg6_1, arg7_1])
    getitem_4 = _foreach_sign[0]
    getitem_5 = _foreach_sign[1]
    getitem_6 = _foreach_sign[2]
    getitem_7 = _foreach_sign[3]
    _foreach_sub = aten._foreach_sub.List([getitem, getitem_1, getitem_2, getitem_3], [getitem_4, getitem_5, getitem_6, getitem_7], alpha=0.01)
    getitem_8 = _foreach_sub[0]
    getitem_9 = _foreach_sub[1]
    getitem_10 = _foreach_sub[2]
    getitem_11 = _foreach_sub[3]
    return getitem_8.to(torch.bfloat16), getitem_9.to(torch.bfloat16), getitem_10.to(torch.bfloat16), getitem_11.to(torch.bfloat16)


def kernel(arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1, *, XBLOCK=1024, num_warps=8, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 512), (512, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((512,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((100, 999), (999, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr3 = torch.empty_strided((17,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(512, XBLOCK) + triton.cdiv(99900, XBLOCK) + triton.cdiv(17, XBLOCK),)
    fused_kernel[grid](arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3
