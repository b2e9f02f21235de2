"""Persistent reduction by Inductor: of entropy, bfloat16."""

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
def fused_kernel(in_ptr0, out_ptr3, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp18 = libdevice.exp(tmp17)
    tmp19 = tmp18 * tmp17
    tmp20 = tl.broadcast_to(tmp19, [XBLOCK, R0_BLOCK])
    tmp22 = tl.where(xmask, tmp20, 0)
    tmp23 = tl.sum(tmp22, 1)[:, None].to(tl.float32)
    tmp24 = -tmp23
    tl.store(out_ptr3 + (x0), tmp24, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    convert_element_type = x_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type.amax(-1, keepdim=True), (convert_element_type - convert_element_type.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    exp_1 = aten.exp.default(sub_1)
    mul = aten.mul.Tensor(exp_1, sub_1)
    sum_2 = aten.sum.dim_IntList(mul, [-1])
    neg = aten.neg.default(sum_2)
    return neg.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr3 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr3, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr3
