"""Persistent reduction by Inductor: of cosine_similarity, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.0005}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, out_ptr8, out_ptr10, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp13 = tl.load(in_ptr1 + (r0_1 + 1024*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tmp1 * tmp1
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp5 = tl.where(xmask, tmp3, 0)
    tmp6 = tl.sum(tmp5, 1)[:, None].to(tl.float32)
    tmp7 = tl.sqrt_rn(tmp6)
    tmp8 = tmp7.to(tl.float32)
    tmp9 = tmp8.to(tl.float32)
    tmp10 = tl.full([1, 1], 1e-08, tl.float32)
    tmp11 = triton_helpers.maximum(tmp9, tmp10)
    tmp12 = tmp11.to(tl.float32)
    tmp14 = tmp13.to(tl.float32)
    tmp15 = tmp14 * tmp14
    tmp16 = tl.broadcast_to(tmp15, [XBLOCK, R0_BLOCK])
    tmp18 = tl.where(xmask, tmp16, 0)
    tmp19 = tl.sum(tmp18, 1)[:, None].to(tl.float32)
    tmp20 = tl.sqrt_rn(tmp19)
    tmp21 = tmp20.to(tl.float32)
    tmp22 = tmp21.to(tl.float32)
    tmp23 = triton_helpers.maximum(tmp22, tmp10)
    tmp24 = tmp23.to(tl.float32)
    tmp25 = (tmp0 / tmp12)
    tmp26 = (tmp13 / tmp24)
    tmp27 = tmp25 * tmp26
    tmp28 = tl.broadcast_to(tmp27, [XBLOCK, R0_BLOCK])
    tmp30 = tl.where(xmask, tmp28, 0)
    tmp31 = tl.sum(tmp30, 1)[:, None].to(tl.float32)
    tmp32 = tmp31 * tmp26
    tmp33 = -tmp32
    tmp34 = (tmp25 / tmp12)
    tmp35 = tmp33 * tmp34
    tmp36 = tl.broadcast_to(tmp35, [XBLOCK, R0_BLOCK])
    tmp38 = tl.where(xmask, tmp36, 0)
    tmp39 = tl.sum(tmp38, 1)[:, None].to(tl.float32)
    tmp40 = tmp31 * tmp25
    tmp41 = -tmp40
    tmp42 = (tmp26 / tmp24)
    tmp43 = tmp41 * tmp42
    tmp44 = tl.broadcast_to(tmp43, [XBLOCK, R0_BLOCK])
    tmp46 = tl.where(xmask, tmp44, 0)
    tmp47 = tl.sum(tmp46, 1)[:, None].to(tl.float32)
    tmp48 = tl.full([1, 1], 0.0, tl.float32)
    tmp49 = tmp24 == tmp48
    tmp50 = tl.where(tmp49, tmp48, tmp26)
    tmp51 = (tmp40 / tmp24)
    tmp52 = tmp47 * tmp50
    tmp53 = tmp51 + tmp52
    tmp54 = tmp12 == tmp48
    tmp55 = tl.where(tmp54, tmp48, tmp25)
    tmp56 = (tmp32 / tmp12)
    tmp57 = tmp39 * tmp55
    tmp58 = tmp56 + tmp57
    tl.store(out_ptr8 + (r0_1 + 1024*x0), tmp53, xmask)
    tl.store(out_ptr10 + (r0_1 + 1024*x0), tmp58, xmask)
    tl.store(out_ptr4 + (x0), tmp31, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    arg1_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
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
    expand = aten.expand.default(unsqueeze, [2048, 1024])
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
    return sum_3.to(torch.bfloat16), add.to(torch.bfloat16), add_1.to(torch.bfloat16)


def kernel(arg0_1, arg1_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr4 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr8 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr10 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr4, out_ptr8, out_ptr10, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4, out_ptr8, out_ptr10
