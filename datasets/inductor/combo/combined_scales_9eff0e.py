"""Combo by Inductor: of combined_scales, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.04}


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
        xmask = xindex < xnumel
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (x0), xmask).to(tl.float32)
        tmp1 = tl.full([1], 2.0, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp3 = tl.full([1], 1.0, tl.float32)
        tmp4 = tmp2 + tmp3
        tl.store(out_ptr0 + (x0), tmp4, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp5 = tl.load(in_ptr1 + (x1), xmask).to(tl.float32)
        tmp6 = libdevice.exp(tmp5)
        tmp7 = tl.full([1], 1.0, tl.float32)
        tmp8 = tmp6 - tmp7
        tl.store(out_ptr1 + (x1), tmp8, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 99900
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x2 = xindex
        tmp9 = tl.load(in_ptr2 + (x2), xmask).to(tl.float32)
        tmp10 = tmp9.to(tl.float32)
        tmp11 = -tmp10
        tmp12 = libdevice.exp(tmp11)
        tmp13 = tl.full([1], 1.0, tl.float32)
        tmp14 = tmp12 + tmp13
        tmp15 = (tmp10 / tmp14)
        tmp16 = tmp15.to(tl.float32)
        tl.store(out_ptr2 + (x2), tmp16, xmask)
    elif pid < num_xblocks_3:
        pid_offset = pid - num_xblocks_2
        xnumel = 17
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x3 = xindex
        tmp17 = tl.load(in_ptr3 + (x3), xmask).to(tl.float32)
        tmp18 = tmp17 * tmp17
        tmp19 = tl.full([1], 1.0, tl.float32)
        tmp20 = tmp18 + tmp19
        tmp21 = libdevice.rsqrt(tmp20)
        tl.store(out_ptr3 + (x3), tmp21, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((2048, 512), dtype=torch.bfloat16, device=device)
    b_1 = torch.randn((512,), dtype=torch.bfloat16, device=device)
    c_1 = torch.randn((100, 999), dtype=torch.bfloat16, device=device)
    d_1 = torch.empty((17,), dtype=torch.bfloat16, device=device).normal_(-0.417, 0.92)
    return (a_1, b_1, c_1, d_1,)


def reference(a_1, b_1, c_1, d_1):
    a_1 = a_1.float()
    mul = aten.mul.Tensor(a_1, 2)
    add = aten.add.Tensor(mul, 1)
    b_1 = b_1.float()
    exp = aten.exp.default(b_1)
    sub = aten.sub.Tensor(exp, 1)
    convert_element_type = c_1.to(torch.float32)
    neg = aten.neg.default(convert_element_type)
    exp_1 = aten.exp.default(neg)
    add_1 = aten.add.Tensor(exp_1, 1)
    div = aten.div.Tensor(convert_element_type, add_1)
    d_1 = d_1.float()
    mul_1 = aten.mul.Tensor(d_1, d_1)
    add_2 = aten.add.Tensor(mul_1, 1)
    rsqrt = aten.rsqrt.default(add_2)
    return add.to(torch.bfloat16), sub.to(torch.bfloat16), div.to(torch.bfloat16), rsqrt.to(torch.bfloat16)


def kernel(a_1, b_1, c_1, d_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 512), (512, 1), dtype=torch.bfloat16, device=a_1.device)
    out_ptr1 = torch.empty_strided((512,), (1,), dtype=torch.bfloat16, device=a_1.device)
    out_ptr2 = torch.empty_strided((100, 999), (999, 1), dtype=torch.bfloat16, device=a_1.device)
    out_ptr3 = torch.empty_strided((17,), (1,), dtype=torch.bfloat16, device=a_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(512, XBLOCK) + triton.cdiv(99900, XBLOCK) + triton.cdiv(17, XBLOCK),)
    fused_kernel[grid](a_1, b_1, c_1, d_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3
