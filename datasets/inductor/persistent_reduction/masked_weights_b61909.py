"""Persistent reduction by Inductor: of masked_weights, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 3e-07}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 6144
    r0_numel = 384
    R0_BLOCK: tl.constexpr = 512
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_3 = r0_index
    x0 = (xindex % 384)
    x2 = xindex // 3072
    x4 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_3 + 384*x0 + 147456*x2), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.int1)
    tmp2 = tl.load(tl.make_block_ptr(in_ptr1, shape=[6144, 384], strides=[384, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp1 = tmp0 == 0
    tmp3 = tl.full([1, 1], -10000.0, tl.float32)
    tmp4 = tl.where(tmp1, tmp3, tmp2)
    tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
    tmp7 = tl.broadcast_to(tmp5, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(r0_mask & xmask, tmp7, float("-inf"))
    tmp10 = triton_helpers.max2(tmp9, 1)[:, None].to(tl.float32)
    tmp11 = tmp5 - tmp10
    tmp12 = libdevice.exp(tmp11)
    tmp13 = tl.broadcast_to(tmp12, [XBLOCK, R0_BLOCK])
    tmp15 = tl.where(r0_mask & xmask, tmp13, 0)
    tmp16 = tl.sum(tmp15, 1)[:, None].to(tl.float32)
    tmp17 = tmp4 - tmp10
    tmp18 = libdevice.exp(tmp17)
    tmp19 = (tmp18 / tmp16)
    tl.store(tl.make_block_ptr(out_ptr2, shape=[6144, 384], strides=[384, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp19, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["XBLOCK"] * 512
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    keep_1 = torch.rand((2, 1, 384, 384), device=device) < 0.9
    x_1 = torch.randn((2, 8, 384, 384), dtype=torch.float32, device=device)
    return (keep_1, x_1,)


def reference(keep_1, x_1):
    bitwise_not = aten.bitwise_not.default(keep_1)
    scalar_tensor = aten.scalar_tensor.default(-10000.0, dtype=torch.float32, device=keep_1.device)
    where = aten.where.self(bitwise_not, scalar_tensor, x_1)
    prepare_softmax_online_default = where.amax(-1, keepdim=True), (where - where.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(where, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    return div


def kernel(keep_1, x_1, *, XBLOCK=2, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2, 8, 384, 384), (1179648, 147456, 384, 1), dtype=torch.float32, device=keep_1.device)
    grid = (triton.cdiv(6144, XBLOCK),)
    fused_kernel[grid](keep_1, x_1, out_ptr2, 6144, 384, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
