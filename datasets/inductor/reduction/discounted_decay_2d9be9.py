"""Reduction by Inductor: of discounted_decay, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 4e-08}


@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0

@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 256
    r0_numel = 2048
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    block_ptr0 = tl.make_block_ptr(in_ptr0, shape=[256, 2048], strides=[2048, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, 0])
    tmp10 = tl.full([XBLOCK, 1], float('nan'), tl.float32)
    block_ptr2 = tl.make_block_ptr(in_ptr1, shape=[256, 2048], strides=[2048, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, 0])
    block_ptr3 = tl.make_block_ptr(out_ptr1, shape=[256, 2048], strides=[2048, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, 0])
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(block_ptr0, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
        tmp17 = tl.load(block_ptr2, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
        tmp1 = tl.full([1, 1], 0.0, tl.float32)
        tmp2 = triton_helpers.minimum(tmp1, tmp0)
        tmp3 = tl_math.abs(tmp0)
        tmp4 = -tmp3
        tmp5 = libdevice.exp(tmp4)
        tmp6 = libdevice.log1p(tmp5)
        tmp7 = tmp2 - tmp6
        tmp8 = tmp7.to(tl.float32)
        tmp9 = tl.broadcast_to(tmp8, [XBLOCK, R0_BLOCK])
        tmp11, = tl.associative_scan((tmp9,), 1, _triton_helper_fn_add0)
        tmp12 = triton_helpers.select_one((tmp11), rbase == (RBLOCK - 1), dim=-1, keep_dims=True)
        tmp13 = tmp10 + tmp12
        tmp14 = tmp10 + tmp11
        tmp15 = tl.where(roffset > 0, tmp14, tmp11)
        tmp10 = tl.where(roffset > 0, tmp13, tmp12)
        tmp16 = libdevice.exp(tmp15)
        tmp18 = tmp16 * tmp17
        tl.store(block_ptr3, tl.broadcast_to(tmp18, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
        block_ptr0 = tl.advance(block_ptr0, [0, R0_BLOCK])
        block_ptr2 = tl.advance(block_ptr2, [0, R0_BLOCK])
        block_ptr3 = tl.advance(block_ptr3, [0, R0_BLOCK])


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    decay_1 = torch.randn((256, 2048), dtype=torch.float32, device=device)
    x_1 = torch.randn((256, 2048), dtype=torch.float32, device=device)
    return (decay_1, x_1,)


def reference(decay_1, x_1):
    full = aten.full.default([], 0, dtype=torch.float32, device=decay_1.device)
    minimum = aten.minimum.default(full, decay_1)
    abs_1 = aten.abs.default(decay_1)
    neg = aten.neg.default(abs_1)
    exp = aten.exp.default(neg)
    log1p = aten.log1p.default(exp)
    sub = aten.sub.Tensor(minimum, log1p)
    cumsum = aten.cumsum.default(sub, 1)
    exp_1 = aten.exp.default(cumsum)
    mul = aten.mul.Tensor(exp_1, x_1)
    return mul


def kernel(decay_1, x_1, *, XBLOCK=2, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr1 = torch.empty_strided((256, 2048), (2048, 1), dtype=torch.float32, device=decay_1.device)
    grid = (triton.cdiv(256, XBLOCK),)
    fused_kernel[grid](decay_1, x_1, out_ptr1, 256, 2048, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
