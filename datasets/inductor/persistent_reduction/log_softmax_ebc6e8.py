"""Persistent reduction by Inductor: of log_softmax, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 2048
    r0_numel = 1024
    R0_BLOCK: tl.constexpr = 1024
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = tl.full([R0_BLOCK], True, tl.int1)[None, :]
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 1024*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp6 = tl.where(xmask, tmp4, float("-inf"))
    tmp7 = triton_helpers.max2(tmp6, 1)[:, None].to(tl.float32)
    tmp8 = tmp2 - tmp7
    tmp9 = libdevice.exp(tmp8)
    tmp10 = tl.broadcast_to(tmp9, [XBLOCK, R0_BLOCK])
    tmp12 = tl.where(xmask, tmp10, 0)
    tmp13 = tl.sum(tmp12, 1)[:, None].to(tl.float32)
    tmp14 = tmp1 - tmp7
    tmp15 = tl_math.log(tmp13)
    tmp16 = tmp14 - tmp15
    tmp17 = tmp16.to(tl.float32)
    tmp18 = tmp17.to(tl.float32)
    tmp19 = tl.broadcast_to(tmp18, [XBLOCK, R0_BLOCK])
    tmp21 = tl.where(xmask, tmp19, 0)
    tmp22 = tl.sum(tmp21, 1)[:, None].to(tl.float32)
    tmp23 = libdevice.exp(tmp18)
    tmp24 = tmp23 * tmp22
    tmp25 = tmp18 - tmp24
    tmp26 = tmp25.to(tl.float32)
    tl.store(out_ptr2 + (r0_1 + 1024*x0), tmp17, xmask)
    tl.store(out_ptr4 + (r0_1 + 1024*x0), tmp26, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (arg0_1,)


def reference(arg0_1):
    convert_element_type = arg0_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type.amax(-1, keepdim=True), (convert_element_type - convert_element_type.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    exp_1 = aten.exp.default(sub_1)
    sum_2 = aten.sum.dim_IntList(sub_1, [-1], True)
    mul = aten.mul.Tensor(exp_1, sum_2)
    sub_2 = aten.sub.Tensor(sub_1, mul)
    return sub_1.to(torch.bfloat16), sub_2.to(torch.bfloat16)


def kernel(arg0_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr4 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](arg0_1, out_ptr2, out_ptr4, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2, out_ptr4
