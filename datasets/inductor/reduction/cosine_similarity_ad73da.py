"""Reduction by Inductor: of cosine_similarity, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 1e-06}


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
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tmp5 = tl.sqrt_rn(tmp3)
    tmp6 = tl.full([1, 1], 1e-08, tl.float32)
    tmp7 = triton_helpers.maximum(tmp5, tmp6)
    _tmp11 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp8 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp9 = tmp8 * tmp8
        tmp10 = tl.broadcast_to(tmp9, [XBLOCK, R0_BLOCK])
        tmp12 = _tmp11 + tmp10
        _tmp11 = tl.where(r0_mask & xmask, tmp12, _tmp11)
    tmp11 = tl.sum(_tmp11, 1)[:, None]
    tmp13 = tl.sqrt_rn(tmp11)
    tmp14 = tl.full([1, 1], 1e-08, tl.float32)
    tmp15 = triton_helpers.maximum(tmp13, tmp14)
    _tmp22 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp16 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp18 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp17 = (tmp16 / tmp7)
        tmp19 = (tmp18 / tmp15)
        tmp20 = tmp17 * tmp19
        tmp21 = tl.broadcast_to(tmp20, [XBLOCK, R0_BLOCK])
        tmp23 = _tmp22 + tmp21
        _tmp22 = tl.where(r0_mask & xmask, tmp23, _tmp22)
    tmp22 = tl.sum(_tmp22, 1)[:, None]
    tl.store(out_ptr4 + (x0), tmp22, xmask)
    _tmp33 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    _tmp40 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp24 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp28 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp25 = (tmp24 / tmp15)
        tmp26 = tmp22 * tmp25
        tmp27 = -tmp26
        tmp29 = (tmp28 / tmp7)
        tmp30 = (tmp29 / tmp7)
        tmp31 = tmp27 * tmp30
        tmp32 = tl.broadcast_to(tmp31, [XBLOCK, R0_BLOCK])
        tmp34 = _tmp33 + tmp32
        _tmp33 = tl.where(r0_mask & xmask, tmp34, _tmp33)
        tmp35 = tmp22 * tmp29
        tmp36 = -tmp35
        tmp37 = (tmp25 / tmp15)
        tmp38 = tmp36 * tmp37
        tmp39 = tl.broadcast_to(tmp38, [XBLOCK, R0_BLOCK])
        tmp41 = _tmp40 + tmp39
        _tmp40 = tl.where(r0_mask & xmask, tmp41, _tmp40)
        tmp42 = tl.full([1, 1], 0.0, tl.float32)
        tmp43 = tmp15 == tmp42
        tmp44 = tl.where(tmp43, tmp42, tmp25)
        tl.store(out_ptr7 + (r0_1 + 5024*x0), tmp44, r0_mask & xmask)
    tmp33 = tl.sum(_tmp33, 1)[:, None]
    tmp40 = tl.sum(_tmp40, 1)[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp45 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp49 = tl.load(out_ptr7 + (r0_1 + 5024*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp55 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp46 = (tmp45 / tmp7)
        tmp47 = tmp22 * tmp46
        tmp48 = (tmp47 / tmp15)
        tmp50 = tmp40 * tmp49
        tmp51 = tmp48 + tmp50
        tmp52 = tl.full([1, 1], 0.0, tl.float32)
        tmp53 = tmp7 == tmp52
        tmp54 = tl.where(tmp53, tmp52, tmp46)
        tmp56 = (tmp55 / tmp15)
        tmp57 = tmp22 * tmp56
        tmp58 = (tmp57 / tmp7)
        tmp59 = tmp33 * tmp54
        tmp60 = tmp58 + tmp59
        tl.store(out_ptr8 + (r0_1 + 5024*x0), tmp51, r0_mask & xmask)
        tl.store(out_ptr10 + (r0_1 + 5024*x0), tmp60, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    return (arg0_1, arg1_1,)


def reference(arg0_1, arg1_1):
    pow_1 = aten.pow.Tensor_Scalar(arg0_1, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    pow_3 = aten.pow.Tensor_Scalar(arg1_1, 2)
    sum_2 = aten.sum.dim_IntList(pow_3, [1], True)
    pow_4 = aten.pow.Tensor_Scalar(sum_2, 0.5)
    scalar_tensor = aten.scalar_tensor.default(1e-08, dtype=torch.float32, device=arg0_1.device)
    clamp_min = aten.clamp_min.Tensor(pow_2, scalar_tensor)
    copy_ = aten.copy_.default(pow_2, clamp_min)
    clamp_min_1 = aten.clamp_min.Tensor(pow_4, scalar_tensor)
    copy__1 = aten.copy_.default(pow_4, clamp_min_1)
    div = aten.div.Tensor(arg1_1, copy__1)
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
    div_8 = aten.div.Tensor(arg1_1, pow_4)
    eq = aten.eq.Scalar(pow_4, 0)
    scalar_tensor_1 = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=arg0_1.device)
    where = aten.where.self(eq, scalar_tensor_1, div_8)
    copy__2 = aten.copy_.default(div_8, where)
    mul_5 = aten.mul.Tensor(sum_5, copy__2)
    add = aten.add.Tensor(div_7, mul_5)
    div_9 = aten.div.Tensor(arg0_1, pow_2)
    eq_1 = aten.eq.Scalar(pow_2, 0)
    scalar_tensor_2 = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=arg0_1.device)
    where_1 = aten.where.self(eq_1, scalar_tensor_2, div_9)
    copy__3 = aten.copy_.default(div_9, where_1)
    mul_6 = aten.mul.Tensor(sum_4, copy__3)
    add_1 = aten.add.Tensor(div_4, mul_6)
    return sum_3, copy__2, add, add_1


def kernel(arg0_1, arg1_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((333,), (1,), dtype=torch.float32, device=arg0_1.device)
    out_ptr7 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr8 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr10 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr4, out_ptr7, out_ptr8, out_ptr10, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4, out_ptr7, out_ptr8, out_ptr10
