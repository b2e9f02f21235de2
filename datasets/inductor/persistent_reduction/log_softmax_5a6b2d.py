"""Persistent reduction by Inductor: of log_softmax, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0007}


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
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp5 = tl.where(xmask, tmp3, float("-inf"))
    tmp6 = triton_helpers.max2(tmp5, 1)[:, None].to(tl.float32)
    tmp7 = tmp1 - tmp6
    tmp8 = libdevice.exp(tmp7)
    tmp9 = tl.broadcast_to(tmp8, [XBLOCK, R0_BLOCK])
    tmp11 = tl.where(xmask, tmp9, 0)
    tmp12 = tl.sum(tmp11, 1)[:, None].to(tl.float32)
    tmp13 = tmp0 - tmp6
    tmp14 = tl_math.log(tmp12)
    tmp15 = tmp13 - tmp14
    tmp16 = tl.broadcast_to(tmp15, [XBLOCK, R0_BLOCK])
    tmp18 = tl.where(xmask, tmp16, 0)
    tmp19 = tl.sum(tmp18, 1)[:, None].to(tl.float32)
    tmp20 = libdevice.exp(tmp15)
    tmp21 = tmp20 * tmp19
    tmp22 = tmp15 - tmp21
    tl.store(tl.make_block_ptr(out_ptr2, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp15, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
    tl.store(tl.make_block_ptr(out_ptr4, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp22, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (arg0_1,)


def reference(arg0_1):
    prepare_softmax_online_default = arg0_1.amax(-1, keepdim=True), (arg0_1 - arg0_1.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(arg0_1, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    exp_1 = aten.exp.default(sub_1)
    sum_2 = aten.sum.dim_IntList(sub_1, [-1], True)
    mul = aten.mul.Tensor(exp_1, sum_2)
    sub_2 = aten.sub.Tensor(sub_1, mul)
    return sub_1, sub_2


def kernel(arg0_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr4 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](arg0_1, out_ptr2, out_ptr4, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2, out_ptr4
