"""Foreach by Inductor: of foreach_average, bfloat16."""

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
        tmp1 = tl.load(in_ptr1 + (x0), None).to(tl.float32)
        tmp2 = tmp1 - tmp0
        tmp3 = tl.full([1], 0.01, tl.float32)
        tmp4 = tmp2 * tmp3
        tmp5 = tmp0 + tmp4
        tl.store(out_ptr0 + (x0), tmp5, None)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp6 = tl.load(in_ptr2 + (x1), xmask).to(tl.float32)
        tmp7 = tl.load(in_ptr3 + (x1), xmask).to(tl.float32)
        tmp8 = tmp7 - tmp6
        tmp9 = tl.full([1], 0.01, tl.float32)
        tmp10 = tmp8 * tmp9
        tmp11 = tmp6 + tmp10
        tl.store(out_ptr1 + (x1), tmp11, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 99900
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x2 = xindex
        tmp12 = tl.load(in_ptr4 + (x2), xmask).to(tl.float32)
        tmp13 = tl.load(in_ptr5 + (x2), xmask).to(tl.float32)
        tmp14 = tmp13 - tmp12
        tmp15 = tl.full([1], 0.01, tl.float32)
        tmp16 = tmp14 * tmp15
        tmp17 = tmp12 + tmp16
        tl.store(out_ptr2 + (x2), tmp17, xmask)
    elif pid < num_xblocks_3:
        pid_offset = pid - num_xblocks_2
        xnumel = 17
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x3 = xindex
        tmp18 = tl.load(in_ptr6 + (x3), xmask).to(tl.float32)
        tmp19 = tl.load(in_ptr7 + (x3), xmask).to(tl.float32)
        tmp20 = tmp19 - tmp18
        tmp21 = tl.full([1], 0.01, tl.float32)
        tmp22 = tmp20 * tmp21
        tmp23 = tmp18 + tmp22
        tl.store(out_ptr3 + (x3), tmp23, xmask)
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
    arg4_1 = arg4_1.float()
    arg5_1 = arg5_1.float()
    arg6_1 = arg6_1.float()
    arg7_1 = arg7_1.float()
    arg0_1 = arg0_1.float()
    arg1_1 = arg1_1.float()
    arg2_1 = arg2_1.float()
    arg3_1 = arg3_1.float()
    _foreach_sub = aten._foreach_sub.List([arg4_1, arg5_1, arg6_1, arg7_1], [arg0_1, arg1_1, arg2_1, arg3_1])
    getitem = _foreach_sub[0]
    getitem_1 = _foreach_sub[1]
    getitem_2 = _foreach_sub[2]
    getitem_3 = _foreach_sub[3]
    _foreach_mul = aten._foreach_mul.Scalar([getitem, getitem_1, getitem_2, getitem_3], 0.01)
    getitem_4 = _foreach_mul[0]
    getitem_5 = _foreach_mul[1]
    getitem_6 = _foreach_mul[2]
    getitem_7 = _foreach_mul[3]
    _foreach_add = aten._foreach_add.List([arg0_1, arg1_1, arg2_1, arg3_1], [getitem_4, getitem_5, getitem_6, getitem_7])
    getitem_8 = _foreach_add[0]
    getitem_9 = _foreach_add[1]
    getitem_10 = _foreach_add[2]
    getitem_11 = _foreach_add[3]
    return getitem_8.to(torch.bfloat16), getitem_9.to(torch.bfloat16), getitem_10.to(torch.bfloat16), getitem_11.to(torch.bfloat16)


def kernel(arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1, *, XBLOCK=1024, num_warps=8, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 512), (512, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((512,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((100, 999), (999, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr3 = torch.empty_strided((17,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(512, XBLOCK) + triton.cdiv(99900, XBLOCK) + triton.cdiv(17, XBLOCK),)
    fused_kernel[grid](arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3
