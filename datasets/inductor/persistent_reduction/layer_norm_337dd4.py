"""Persistent reduction by Inductor: of layer_norm, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp23 = tl.load(tl.make_block_ptr(in_ptr1, shape=[1024], strides=[1], block_shape=[R0_BLOCK], order=[0], offsets=[r0_offset]), boundary_check=[0], padding_option='zero', eviction_policy='evict_last')[None, :]
    tmp25 = tl.load(tl.make_block_ptr(in_ptr2, shape=[1024], strides=[1], block_shape=[R0_BLOCK], order=[0], offsets=[r0_offset]), boundary_check=[0], padding_option='zero', eviction_policy='evict_last')[None, :]
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(xmask, tmp1, 0)
    tmp4 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp6 = tl.where(xmask, tmp4, 0)
    tmp7 = tl.sum(tmp6, 1)[:, None].to(tl.float32)
    tmp8 = (tl.full([1, 1], 1024, tl.int32)).to(tl.float32)
    tmp9 = (tmp7 / tmp8)
    tmp10 = tmp1 - tmp9
    tmp11 = tmp10 * tmp10
    tmp12 = tl.broadcast_to(tmp11, [XBLOCK, R0_BLOCK])
    tmp14 = tl.where(xmask, tmp12, 0)
    tmp15 = tl.sum(tmp14, 1)[:, None].to(tl.float32)
    tmp16 = tmp0 - tmp9
    tmp17 = tl.full([1, 1], 1024.0, tl.float32)
    tmp18 = (tmp15 / tmp17)
    tmp19 = tl.full([1, 1], 1e-05, tl.float32)
    tmp20 = tmp18 + tmp19
    tmp21 = libdevice.rsqrt(tmp20)
    tmp22 = tmp16 * tmp21
    tmp24 = tmp22 * tmp23
    tmp26 = tmp24 + tmp25
    tl.store(tl.make_block_ptr(out_ptr2, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp26, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    w_1 = torch.empty((1024,), dtype=torch.float32, device=device).normal_(0.0556, 0.982)
    b_1 = torch.randn((1024,), dtype=torch.float32, device=device)
    return (x_1, w_1, b_1,)


def reference(x_1, w_1, b_1):
    var_mean = aten.var_mean.correction(x_1, [1], correction=0, keepdim=True)
    getitem = var_mean[0]
    getitem_1 = var_mean[1]
    sub = aten.sub.Tensor(x_1, getitem_1)
    add = aten.add.Tensor(getitem, 1e-05)
    rsqrt = aten.rsqrt.default(add)
    mul = aten.mul.Tensor(sub, rsqrt)
    mul_1 = aten.mul.Tensor(mul, w_1)
    add_1 = aten.add.Tensor(mul_1, b_1)
    return add_1


def kernel(x_1, w_1, b_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, w_1, b_1, out_ptr2, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
