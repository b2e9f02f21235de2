"""Reduction by Inductor: of huber, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 4e+01}


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
    _tmp16 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp2 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp3 = tmp2.to(tl.float32)
        tmp4 = tmp1 - tmp3
        tmp5 = tl_math.abs(tmp4)
        tmp6 = tl.full([1, 1], 1.0, tl.float32)
        tmp7 = tmp5 < tmp6
        tmp8 = tl.full([1, 1], 0.5, tl.float32)
        tmp9 = tmp5 * tmp8
        tmp10 = tmp9 * tmp5
        tmp11 = tmp5 - tmp8
        tmp12 = tmp11 * tmp6
        tmp13 = tl.where(tmp7, tmp10, tmp12)
        tmp14 = tmp13.to(tl.float32)
        tmp15 = tl.broadcast_to(tmp14, [XBLOCK, R0_BLOCK])
        tmp17 = _tmp16 + tmp15
        _tmp16 = tl.where(r0_mask & xmask, tmp17, _tmp16)
    tmp16 = tl.sum(_tmp16, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp16, xmask)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp18 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp20 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp19 = tmp18.to(tl.float32)
        tmp21 = tmp20.to(tl.float32)
        tmp22 = tmp19 - tmp21
        tmp23 = tl.full([1, 1], -1.0, tl.float32)
        tmp24 = tmp22 < tmp23
        tmp25 = tmp16.to(tl.float32)
        tmp26 = tmp25 * tmp23
        tmp27 = tl.full([1, 1], 1.0, tl.float32)
        tmp28 = tmp26 * tmp27
        tmp29 = tmp22 > tmp27
        tmp30 = tmp25 * tmp27
        tmp31 = tmp30 * tmp27
        tmp32 = tmp22 * tmp27
        tmp33 = tmp32 * tmp25
        tmp34 = tl.where(tmp29, tmp31, tmp33)
        tmp35 = tl.where(tmp24, tmp28, tmp34)
        tmp36 = tmp35.to(tl.float32)
        tmp37 = tmp21 - tmp19
        tmp38 = tmp37 < tmp23
        tmp39 = tmp37 > tmp27
        tmp40 = tmp37 * tmp27
        tmp41 = tmp40 * tmp25
        tmp42 = tl.where(tmp39, tmp31, tmp41)
        tmp43 = tl.where(tmp38, tmp28, tmp42)
        tmp44 = tmp43.to(tl.float32)
        tl.store(out_ptr1 + (r0_1 + 5056*x0), tmp36, r0_mask & xmask)
        tl.store(out_ptr2 + (r0_1 + 5056*x0), tmp44, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    arg1_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    return (arg0_1, arg1_1,)


def reference(arg0_1, arg1_1):
    convert_element_type = arg0_1.to(torch.float32)
    convert_element_type_1 = arg1_1.to(torch.float32)
    sub = aten.sub.Tensor(convert_element_type, convert_element_type_1)
    abs_1 = aten.abs.default(sub)
    lt = aten.lt.Scalar(abs_1, 1.0)
    mul = aten.mul.Tensor(abs_1, 0.5)
    mul_1 = aten.mul.Tensor(mul, abs_1)
    sub_1 = aten.sub.Tensor(abs_1, 0.5)
    mul_2 = aten.mul.Tensor(sub_1, 1.0)
    where = aten.where.self(lt, mul_1, mul_2)
    sum_1 = aten.sum.dim_IntList(where, [1])
    convert_element_type_4 = arg0_1.to(torch.float32)
    convert_element_type_5 = arg1_1.to(torch.float32)
    sub_2 = aten.sub.Tensor(convert_element_type_4, convert_element_type_5)
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
    convert_element_type_8 = arg1_1.to(torch.float32)
    convert_element_type_9 = arg0_1.to(torch.float32)
    sub_3 = aten.sub.Tensor(convert_element_type_8, convert_element_type_9)
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
    return sum_1.to(torch.float16), where_2.to(torch.float16), where_4.to(torch.float16)


def kernel(arg0_1, arg1_1, *, XBLOCK=1, R0_BLOCK=8192, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((333,), (1,), dtype=torch.float16, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr0, out_ptr1, out_ptr2, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
