"""Reduction by Inductor: of cosine_similarity, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, out_ptr7, out_ptr8, out_ptr10, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
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
    _tmp4 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tmp1 * tmp1
        tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
        tmp5 = _tmp4 + tmp3
        _tmp4 = tl.where(r0_mask & xmask, tmp5, _tmp4)
    tmp4 = tl.sum(_tmp4, 1)[:, None]
    tmp6 = tl.sqrt_rn(tmp4)
    tmp7 = tmp6.to(tl.float32)
    tmp8 = tmp7.to(tl.float32)
    tmp9 = tl.full([1, 1], 1e-08, tl.float32)
    tmp10 = triton_helpers.maximum(tmp8, tmp9)
    tmp11 = tmp10.to(tl.float32)
    _tmp16 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp12 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp13 = tmp12.to(tl.float32)
        tmp14 = tmp13 * tmp13
        tmp15 = tl.broadcast_to(tmp14, [XBLOCK, R0_BLOCK])
        tmp17 = _tmp16 + tmp15
        _tmp16 = tl.where(r0_mask & xmask, tmp17, _tmp16)
    tmp16 = tl.sum(_tmp16, 1)[:, None]
    tmp18 = tl.sqrt_rn(tmp16)
    tmp19 = tmp18.to(tl.float32)
    tmp20 = tmp19.to(tl.float32)
    tmp21 = tl.full([1, 1], 1e-08, tl.float32)
    tmp22 = triton_helpers.maximum(tmp20, tmp21)
    tmp23 = tmp22.to(tl.float32)
    _tmp30 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp24 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp26 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp25 = (tmp24 / tmp11)
        tmp27 = (tmp26 / tmp23)
        tmp28 = tmp25 * tmp27
        tmp29 = tl.broadcast_to(tmp28, [XBLOCK, R0_BLOCK])
        tmp31 = _tmp30 + tmp29
        _tmp30 = tl.where(r0_mask & xmask, tmp31, _tmp30)
    tmp30 = tl.sum(_tmp30, 1)[:, None]
    tl.store(out_ptr4 + (x0), tmp30, xmask)
    _tmp41 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    _tmp48 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp32 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp36 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp33 = (tmp32 / tmp23)
        tmp34 = tmp30 * tmp33
        tmp35 = -tmp34
        tmp37 = (tmp36 / tmp11)
        tmp38 = (tmp37 / tmp11)
        tmp39 = tmp35 * tmp38
        tmp40 = tl.broadcast_to(tmp39, [XBLOCK, R0_BLOCK])
        tmp42 = _tmp41 + tmp40
        _tmp41 = tl.where(r0_mask & xmask, tmp42, _tmp41)
        tmp43 = tmp30 * tmp37
        tmp44 = -tmp43
        tmp45 = (tmp33 / tmp23)
        tmp46 = tmp44 * tmp45
        tmp47 = tl.broadcast_to(tmp46, [XBLOCK, R0_BLOCK])
        tmp49 = _tmp48 + tmp47
        _tmp48 = tl.where(r0_mask & xmask, tmp49, _tmp48)
        tmp50 = tl.full([1, 1], 0.0, tl.float32)
        tmp51 = tmp23 == tmp50
        tmp52 = tl.where(tmp51, tmp50, tmp33)
        tl.store(out_ptr7 + (r0_1 + 5056*x0), tmp52, r0_mask & xmask)
    tmp41 = tl.sum(_tmp41, 1)[:, None]
    tmp48 = tl.sum(_tmp48, 1)[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp53 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp57 = tl.load(out_ptr7 + (r0_1 + 5056*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp63 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp54 = (tmp53 / tmp11)
        tmp55 = tmp30 * tmp54
        tmp56 = (tmp55 / tmp23)
        tmp58 = tmp48 * tmp57
        tmp59 = tmp56 + tmp58
        tmp60 = tl.full([1, 1], 0.0, tl.float32)
        tmp61 = tmp11 == tmp60
        tmp62 = tl.where(tmp61, tmp60, tmp54)
        tmp64 = (tmp63 / tmp23)
        tmp65 = tmp30 * tmp64
        tmp66 = (tmp65 / tmp11)
        tmp67 = tmp41 * tmp62
        tmp68 = tmp66 + tmp67
        tl.store(out_ptr8 + (r0_1 + 5056*x0), tmp59, r0_mask & xmask)
        tl.store(out_ptr10 + (r0_1 + 5056*x0), tmp68, r0_mask & xmask)


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
    pow_1 = aten.pow.Tensor_Scalar(convert_element_type, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    convert_element_type_1 = pow_2.clone()
    convert_element_type_2 = arg1_1.to(torch.float32)
    pow_3 = aten.pow.Tensor_Scalar(convert_element_type_2, 2)
    sum_2 = aten.sum.dim_IntList(pow_3, [1], True)
    pow_4 = aten.pow.Tensor_Scalar(sum_2, 0.5)
    convert_element_type_3 = pow_4.clone()
    scalar_tensor = aten.scalar_tensor.default(1e-08, dtype=torch.float32, device=arg0_1.device)
    clamp_min = aten.clamp_min.Tensor(convert_element_type_1, scalar_tensor)
    copy_ = aten.copy_.default(convert_element_type_1, clamp_min)
    clamp_min_1 = aten.clamp_min.Tensor(convert_element_type_3, scalar_tensor)
    copy__1 = aten.copy_.default(convert_element_type_3, clamp_min_1)
    arg1_1 = arg1_1.float()
    div = aten.div.Tensor(arg1_1, copy__1)
    arg0_1 = arg0_1.float()
    div_1 = aten.div.Tensor(arg0_1, copy_)
    mul = aten.mul.Tensor(div_1, div)
    sum_3 = aten.sum.dim_IntList(mul, [1])
    unsqueeze = aten.unsqueeze.default(sum_3, 1)
    expand = aten.expand.default(unsqueeze, [333, 5001])
    mul_1 = aten.mul.Tensor(expand, div_1)
    mul_2 = aten.mul.Tensor(expand, div)
    div_2 = aten.div.Tensor(arg0_1, copy_)
    div_3 = aten.div.Tensor(div_2, copy_)
    neg = aten.neg.default(mul_2)
    mul_3 = aten.mul.Tensor(neg, div_3)
    div_4 = aten.div.Tensor(mul_2, copy_)
    sum_4 = aten.sum.dim_IntList(mul_3, [1], True)
    div_5 = aten.div.Tensor(arg1_1, copy__1)
    div_6 = aten.div.Tensor(div_5, copy__1)
    neg_1 = aten.neg.default(mul_1)
    mul_4 = aten.mul.Tensor(neg_1, div_6)
    div_7 = aten.div.Tensor(mul_1, copy__1)
    sum_5 = aten.sum.dim_IntList(mul_4, [1], True)
    div_8 = aten.div.Tensor(arg1_1, convert_element_type_3)
    eq = aten.eq.Scalar(convert_element_type_3, 0)
    scalar_tensor_1 = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=arg0_1.device)
    where = aten.where.self(eq, scalar_tensor_1, div_8)
    copy__2 = aten.copy_.default(div_8, where)
    mul_5 = aten.mul.Tensor(sum_5, copy__2)
    add = aten.add.Tensor(div_7, mul_5)
    div_9 = aten.div.Tensor(arg0_1, convert_element_type_1)
    eq_1 = aten.eq.Scalar(convert_element_type_1, 0)
    scalar_tensor_2 = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=arg0_1.device)
    where_1 = aten.where.self(eq_1, scalar_tensor_2, div_9)
    copy__3 = aten.copy_.default(div_9, where_1)
    mul_6 = aten.mul.Tensor(sum_4, copy__3)
    add_1 = aten.add.Tensor(div_4, mul_6)
    return sum_3.to(torch.float16), copy__2.to(torch.float16), add.to(torch.float16), add_1.to(torch.float16)


def kernel(arg0_1, arg1_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((333,), (1,), dtype=torch.float16, device=arg0_1.device)
    out_ptr7 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr8 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr10 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr4, out_ptr7, out_ptr8, out_ptr10, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4, out_ptr7, out_ptr8, out_ptr10
