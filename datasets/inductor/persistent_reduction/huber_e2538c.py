"""Persistent reduction by Inductor: of huber, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.07}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp1 = tl.load(tl.make_block_ptr(in_ptr1, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp2 = tmp0 - tmp1
    tmp3 = tl_math.abs(tmp2)
    tmp4 = tl.full([1, 1], 1.0, tl.float32)
    tmp5 = tmp3 < tmp4
    tmp6 = tl.full([1, 1], 0.5, tl.float32)
    tmp7 = tmp3 * tmp6
    tmp8 = tmp7 * tmp3
    tmp9 = tmp3 - tmp6
    tmp10 = tmp9 * tmp4
    tmp11 = tl.where(tmp5, tmp8, tmp10)
    tmp12 = tl.broadcast_to(tmp11, [XBLOCK, R0_BLOCK])
    tmp14 = tl.where(xmask, tmp12, 0)
    tmp15 = tl.sum(tmp14, 1)[:, None].to(tl.float32)
    tmp16 = tl.full([1, 1], -1.0, tl.float32)
    tmp17 = tmp2 < tmp16
    tmp18 = tmp15 * tmp16
    tmp19 = tmp18 * tmp4
    tmp20 = tmp2 > tmp4
    tmp21 = tmp15 * tmp4
    tmp22 = tmp21 * tmp4
    tmp23 = tmp2 * tmp4
    tmp24 = tmp23 * tmp15
    tmp25 = tl.where(tmp20, tmp22, tmp24)
    tmp26 = tl.where(tmp17, tmp19, tmp25)
    tmp27 = tmp1 - tmp0
    tmp28 = tmp27 < tmp16
    tmp29 = tmp27 > tmp4
    tmp30 = tmp27 * tmp4
    tmp31 = tmp30 * tmp15
    tmp32 = tl.where(tmp29, tmp22, tmp31)
    tmp33 = tl.where(tmp28, tmp19, tmp32)
    tl.store(tl.make_block_ptr(out_ptr1, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp26, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
    tl.store(tl.make_block_ptr(out_ptr2, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp33, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
    tl.store(tl.make_block_ptr(out_ptr0, shape=[2048], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp15, [XBLOCK, 1]), [XBLOCK]).to(tl.float32), boundary_check=[0])


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (arg0_1, arg1_1,)


def reference(arg0_1, arg1_1):
    sub = aten.sub.Tensor(arg0_1, arg1_1)
    abs_1 = aten.abs.default(sub)
    lt = aten.lt.Scalar(abs_1, 1.0)
    mul = aten.mul.Tensor(abs_1, 0.5)
    mul_1 = aten.mul.Tensor(mul, abs_1)
    sub_1 = aten.sub.Tensor(abs_1, 0.5)
    mul_2 = aten.mul.Tensor(sub_1, 1.0)
    where = aten.where.self(lt, mul_1, mul_2)
    sum_1 = aten.sum.dim_IntList(where, [1])
    sub_2 = aten.sub.Tensor(arg0_1, arg1_1)
    lt_1 = aten.lt.Scalar(sub_2, -1.0)
    unsqueeze = aten.unsqueeze.default(sum_1, 1)
    expand = aten.expand.default(unsqueeze, [2048, 1024])
    mul_3 = aten.mul.Tensor(expand, -1.0)
    mul_4 = aten.mul.Tensor(mul_3, 1.0)
    gt = aten.gt.Scalar(sub_2, 1.0)
    mul_5 = aten.mul.Tensor(expand, 1.0)
    mul_6 = aten.mul.Tensor(mul_5, 1.0)
    mul_7 = aten.mul.Tensor(sub_2, 1.0)
    mul_8 = aten.mul.Tensor(mul_7, expand)
    where_1 = aten.where.self(gt, mul_6, mul_8)
    where_2 = aten.where.self(lt_1, mul_4, where_1)
    sub_3 = aten.sub.Tensor(arg1_1, arg0_1)
    lt_2 = aten.lt.Scalar(sub_3, -1.0)
    mul_9 = aten.mul.Tensor(expand, -1.0)
    mul_10 = aten.mul.Tensor(mul_9, 1.0)
    gt_1 = aten.gt.Scalar(sub_3, 1.0)
    mul_11 = aten.mul.Tensor(expand, 1.0)
    mul_12 = aten.mul.Tensor(mul_11, 1.0)
    mul_13 = aten.mul.Tensor(sub_3, 1.0)
    mul_14 = aten.mul.Tensor(mul_13, expand)
    where_3 = aten.where.self(gt_1, mul_12, mul_14)
    where_4 = aten.where.self(lt_2, mul_10, where_3)
    return sum_1, where_2, where_4


def kernel(arg0_1, arg1_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((2048,), (1,), dtype=torch.float32, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr0, out_ptr1, out_ptr2, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
