"""Persistent reduction by Inductor: of kl_divergence, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp14 = tl.load(in_ptr1 + (r0_1 + 1024*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
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
    tmp15 = tmp14.to(tl.float32)
    tmp16 = tl.broadcast_to(tmp15, [XBLOCK, R0_BLOCK])
    tmp18 = tl.broadcast_to(tmp16, [XBLOCK, R0_BLOCK])
    tmp20 = tl.where(xmask, tmp18, float("-inf"))
    tmp21 = triton_helpers.max2(tmp20, 1)[:, None].to(tl.float32)
    tmp22 = tmp16 - tmp21
    tmp23 = libdevice.exp(tmp22)
    tmp24 = tl.broadcast_to(tmp23, [XBLOCK, R0_BLOCK])
    tmp26 = tl.where(xmask, tmp24, 0)
    tmp27 = tl.sum(tmp26, 1)[:, None].to(tl.float32)
    tmp28 = tmp1 - tmp7
    tmp29 = tl_math.log(tmp13)
    tmp30 = tmp28 - tmp29
    tmp31 = tmp30.to(tl.float32)
    tmp32 = libdevice.exp(tmp31)
    tmp33 = tmp15 - tmp21
    tmp34 = tl_math.log(tmp27)
    tmp35 = tmp33 - tmp34
    tmp36 = tmp35.to(tl.float32)
    tmp37 = tmp31 - tmp36
    tmp38 = tmp32 * tmp37
    tmp39 = tl.broadcast_to(tmp38, [XBLOCK, R0_BLOCK])
    tmp41 = tl.where(xmask, tmp39, 0)
    tmp42 = tl.sum(tmp41, 1)[:, None].to(tl.float32)
    tl.store(out_ptr4 + (x0), tmp42, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    y_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    convert_element_type = x_1.to(torch.float32)
    prepare_softmax_online_default_1 = convert_element_type.amax(-1, keepdim=True), (convert_element_type - convert_element_type.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem_2 = prepare_softmax_online_default_1[0]
    getitem_3 = prepare_softmax_online_default_1[1]
    sub_tensor_1 = aten.sub.Tensor(convert_element_type, getitem_2)
    log = aten.log.default(getitem_3)
    sub_1 = aten.sub.Tensor(sub_tensor_1, log)
    exp_2 = aten.exp.default(sub_1)
    convert_element_type_2 = y_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type_2.amax(-1, keepdim=True), (convert_element_type_2 - convert_element_type_2.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type_2, getitem)
    log_1 = aten.log.default(getitem_1)
    sub_3 = aten.sub.Tensor(sub_tensor, log_1)
    sub_4 = aten.sub.Tensor(sub_1, sub_3)
    mul = aten.mul.Tensor(exp_2, sub_4)
    sum_3 = aten.sum.dim_IntList(mul, [-1])
    return sum_3.to(torch.bfloat16)


def kernel(x_1, y_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr4 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr4, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4
