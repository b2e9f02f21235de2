"""Combo by Inductor: of combined_mixture, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.0008}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr2, out_ptr4, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(33, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(99, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 33
        r0_numel = 1000
        R0_BLOCK_0: tl.constexpr = 1024
        rnumel = r0_numel
        RBLOCK: tl.constexpr = R0_BLOCK_0
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
        xmask = xindex < xnumel
        r0_index = tl.arange(0, R0_BLOCK_0)[None, :]
        r0_offset = 0
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (r0_1 + 1000*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK_0])
        tmp4 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK_0])
        tmp6 = tl.where(r0_mask & xmask, tmp4, float("-inf"))
        tmp7 = triton_helpers.max2(tmp6, 1)[:, None].to(tl.float32)
        tmp8 = tmp2 - tmp7
        tmp9 = libdevice.exp(tmp8)
        tmp10 = tl.broadcast_to(tmp9, [XBLOCK, R0_BLOCK_0])
        tmp12 = tl.where(r0_mask & xmask, tmp10, 0)
        tmp13 = tl.sum(tmp12, 1)[:, None].to(tl.float32)
        tmp14 = tmp1 - tmp7
        tmp15 = libdevice.exp(tmp14)
        tmp16 = (tmp15 / tmp13)
        tmp17 = tmp16.to(tl.float32)
        tl.store(out_ptr2 + (r0_1 + 1000*x0), tmp17, r0_mask & xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 99
        r0_numel = 300
        R0_BLOCK_1: tl.constexpr = 512
        rnumel = r0_numel
        RBLOCK: tl.constexpr = R0_BLOCK_1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
        xmask = xindex < xnumel
        r0_index = tl.arange(0, R0_BLOCK_1)[None, :]
        r0_offset = 0
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_3 = r0_index
        x2 = xindex
        tmp18 = tl.load(in_ptr1 + (r0_3 + 300*x2), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp19 = tmp18.to(tl.float32)
        tmp20 = tl.broadcast_to(tmp19, [XBLOCK, R0_BLOCK_1])
        tmp22 = tl.where(r0_mask & xmask, tmp20, 0)
        tmp23 = tl.sum(tmp22, 1)[:, None].to(tl.float32)
        tmp24 = tl.full([1, 1], 300.0, tl.float32)
        tmp25 = (tmp23 / tmp24)
        tmp26 = tmp25.to(tl.float32)
        tl.store(out_ptr4 + (x2), tmp26, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((33, 1000), dtype=torch.bfloat16, device=device)
    b_1 = torch.randn((99, 300), dtype=torch.bfloat16, device=device)
    return (a_1, b_1,)


def reference(a_1, b_1):
    convert_element_type = a_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type.amax(1, keepdim=True), (convert_element_type - convert_element_type.amax(1, keepdim=True)).exp().sum(1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    convert_element_type_1 = div.to(torch.bfloat16)
    mean = aten.mean.dim(b_1, [1])
    return convert_element_type_1, mean


def kernel(a_1, b_1, *, XBLOCK=1, num_warps=8, num_stages=1):
    out_ptr2 = torch.empty_strided((33, 1000), (1000, 1), dtype=torch.bfloat16, device=a_1.device)
    out_ptr4 = torch.empty_strided((99,), (1,), dtype=torch.bfloat16, device=a_1.device)
    grid = (triton.cdiv(33, XBLOCK) + triton.cdiv(99, XBLOCK),)
    fused_kernel[grid](a_1, b_1, out_ptr2, out_ptr4, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2, out_ptr4
