"""Foreach by Inductor: of foreach_add, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, in_ptr5, in_ptr6, in_ptr7, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(1048576, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(4096, XBLOCK)
    num_xblocks_2 = num_xblocks_1 + tl.cdiv(393216, XBLOCK)
    num_xblocks_3 = num_xblocks_2 + tl.cdiv(25641, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 1048576
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = tl.full([XBLOCK], True, tl.int1)[:]
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (x0), None)
        tmp1 = tl.load(in_ptr1 + (x0), None)
        tmp2 = tmp0 + tmp1
        tl.store(out_ptr0 + (x0), tmp2, None)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 4096
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = tl.full([XBLOCK], True, tl.int1)[:]
        x1 = xindex
        tmp3 = tl.load(in_ptr2 + (x1), None)
        tmp4 = tl.load(in_ptr3 + (x1), None)
        tmp5 = tmp3 + tmp4
        tl.store(out_ptr1 + (x1), tmp5, None)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 393216
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = tl.full([XBLOCK], True, tl.int1)[:]
        x2 = xindex
        tmp6 = tl.load(in_ptr4 + (x2), None)
        tmp7 = tl.load(in_ptr5 + (x2), None)
        tmp8 = tmp6 + tmp7
        tl.store(out_ptr2 + (x2), tmp8, None)
    elif pid < num_xblocks_3:
        pid_offset = pid - num_xblocks_2
        xnumel = 25641
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x3 = xindex
        tmp9 = tl.load(in_ptr6 + (x3), xmask)
        tmp10 = tl.load(in_ptr7 + (x3), xmask)
        tmp11 = tmp9 + tmp10
        tl.store(out_ptr3 + (x3), tmp11, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((1024, 1024), dtype=torch.float32, device=device)
    arg4_1 = torch.randn((1024, 1024), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((4096,), dtype=torch.float32, device=device)
    arg5_1 = torch.empty((4096,), dtype=torch.float32, device=device).normal_(0.0208, 1.01)
    arg2_1 = torch.randn((512, 768), dtype=torch.float32, device=device)
    arg6_1 = torch.randn((512, 768), dtype=torch.float32, device=device)
    arg3_1 = torch.randn((333, 77), dtype=torch.float32, device=device)
    arg7_1 = torch.randn((333, 77), dtype=torch.float32, device=device)
    return (arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1,)


def reference(arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1):
    _foreach_add = aten._foreach_add.List([arg0_1, arg1_1, arg2_1, arg3_1], [arg4_1, arg5_1, arg6_1, arg7_1])
    getitem = _foreach_add[0]
    getitem_1 = _foreach_add[1]
    getitem_2 = _foreach_add[2]
    getitem_3 = _foreach_add[3]
    return getitem, getitem_1, getitem_2, getitem_3


def kernel(arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1, *, XBLOCK=1024, num_warps=8, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((4096,), (1,), dtype=torch.float32, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((512, 768), (768, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr3 = torch.empty_strided((333, 77), (77, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(4096, XBLOCK) + triton.cdiv(393216, XBLOCK) + triton.cdiv(25641, XBLOCK),)
    fused_kernel[grid](arg0_1, arg4_1, arg1_1, arg5_1, arg2_1, arg6_1, arg3_1, arg7_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3
