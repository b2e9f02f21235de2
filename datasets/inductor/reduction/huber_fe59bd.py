"""Reduction by Inductor: of huber, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.4}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 333
    r0_numel = 5001
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp13 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp1 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
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
        tmp14 = _tmp13 + tmp12
        _tmp13 = tl.where(r0_mask & xmask, tmp14, _tmp13)
    tmp13 = tl.sum(_tmp13, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp13, xmask)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp15 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp16 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp17 = tmp15 - tmp16
        tmp18 = tl.full([1, 1], -1.0, tl.float32)
        tmp19 = tmp17 < tmp18
        tmp20 = tmp13 * tmp18
        tmp21 = tl.full([1, 1], 1.0, tl.float32)
        tmp22 = tmp20 * tmp21
        tmp23 = tmp17 > tmp21
        tmp24 = tmp13 * tmp21
        tmp25 = tmp24 * tmp21
        tmp26 = tmp17 * tmp21
        tmp27 = tmp26 * tmp13
        tmp28 = tl.where(tmp23, tmp25, tmp27)
        tmp29 = tl.where(tmp19, tmp22, tmp28)
        tmp30 = tmp16 - tmp15
        tmp31 = tmp30 < tmp18
        tmp32 = tmp30 > tmp21
        tmp33 = tmp30 * tmp21
        tmp34 = tmp33 * tmp13
        tmp35 = tl.where(tmp32, tmp25, tmp34)
        tmp36 = tl.where(tmp31, tmp22, tmp35)
        tl.store(out_ptr1 + (r0_1 + 5024*x0), tmp29, r0_mask & xmask)
        tl.store(out_ptr2 + (r0_1 + 5024*x0), tmp36, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
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
    expand = aten.expand.default(unsqueeze, [333, 5001])
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


def kernel(arg0_1, arg1_1, *, XBLOCK=1, R0_BLOCK=8192, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((333,), (1,), dtype=torch.float32, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr0, out_ptr1, out_ptr2, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
