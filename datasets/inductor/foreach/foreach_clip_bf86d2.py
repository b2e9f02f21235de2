"""Foreach by Inductor: of foreach_clip, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.008}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK : tl.constexpr):
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
        tmp1 = tl.full([1], 0.5, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp3 = tl.full([1], 0.25, tl.float32)
        tmp4 = triton_helpers.minimum(tmp2, tmp3)
        tl.store(out_ptr0 + (x0), tmp4, None)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp5 = tl.load(in_ptr1 + (x1), xmask).to(tl.float32)
        tmp6 = tl.full([1], 0.5, tl.float32)
        tmp7 = tmp5 * tmp6
        tmp8 = tl.full([1], 0.25, tl.float32)
        tmp9 = triton_helpers.minimum(tmp7, tmp8)
        tl.store(out_ptr1 + (x1), tmp9, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 99900
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x2 = xindex
        tmp10 = tl.load(in_ptr2 + (x2), xmask).to(tl.float32)
        tmp11 = tl.full([1], 0.5, tl.float32)
        tmp12 = tmp10 * tmp11
        tmp13 = tl.full([1], 0.25, tl.float32)
        tmp14 = triton_helpers.minimum(tmp12, tmp13)
        tl.store(out_ptr2 + (x2), tmp14, xmask)
    elif pid < num_xblocks_3:
        pid_offset = pid - num_xblocks_2
        xnumel = 17
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x3 = xindex
        tmp15 = tl.load(in_ptr3 + (x3), xmask).to(tl.float32)
        tmp16 = tl.full([1], 0.5, tl.float32)
        tmp17 = tmp15 * tmp16
        tmp18 = tl.full([1], 0.25, tl.float32)
        tmp19 = triton_helpers.minimum(tmp17, tmp18)
        tl.store(out_ptr3 + (x3), tmp19, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    arg1_1 = torch.randn((512,), dtype=torch.bfloat16, device=device)
    arg2_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    arg3_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(-0.417, 0.92)
    return (arg0_1, arg1_1, arg2_1, arg3_1,)


def reference(arg0_1, arg1_1, arg2_1, arg3_1):
    arg0_1 = arg0_1.float()
    arg1_1 = arg1_1.float()
    arg2_1 = arg2_1.float()
    arg3_1 = arg3_1.float()
    _foreach_mul = aten._foreach_mul.Scalar([arg0_1, arg1_1, arg2_1, arg3_1], 0.5)
    getitem = _foreach_mul[0]
    getitem_1 = _foreach_mul[1]
    getitem_2 = _foreach_mul[2]
    getitem_3 = _foreach_mul[3]
    _foreach_clamp_max = aten._foreach_clamp_max.Scalar([getitem, getitem_1, getitem_2, getitem_3], 0.25)
    getitem_4 = _foreach_clamp_max[0]
    getitem_5 = _foreach_clamp_max[1]
    getitem_6 = _foreach_clamp_max[2]
    getitem_7 = _foreach_clamp_max[3]
    return getitem_4.to(torch.bfloat16), getitem_5.to(torch.bfloat16), getitem_6.to(torch.bfloat16), getitem_7.to(torch.bfloat16)


def kernel(arg0_1, arg1_1, arg2_1, arg3_1, *, XBLOCK=1024, num_warps=8, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 512), (512, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((512,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((100, 999), (999, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr3 = torch.empty_strided((17,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(512, XBLOCK) + triton.cdiv(99900, XBLOCK) + triton.cdiv(17, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, arg2_1, arg3_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3
