"""Persistent reduction by Inductor: of cosine_similarity, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 3e-06}


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
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp9 = tl.load(tl.make_block_ptr(in_ptr1, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp1 = tmp0 * tmp0
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.where(xmask, tmp2, 0)
    tmp5 = tl.sum(tmp4, 1)[:, None].to(tl.float32)
    tmp6 = tl.sqrt_rn(tmp5)
    tmp7 = tl.full([1, 1], 1e-08, tl.float32)
    tmp8 = triton_helpers.maximum(tmp6, tmp7)
    tmp10 = tmp9 * tmp9
    tmp11 = tl.broadcast_to(tmp10, [XBLOCK, R0_BLOCK])
    tmp13 = tl.where(xmask, tmp11, 0)
    tmp14 = tl.sum(tmp13, 1)[:, None].to(tl.float32)
    tmp15 = tl.sqrt_rn(tmp14)
    tmp16 = triton_helpers.maximum(tmp15, tmp7)
    tmp17 = (tmp0 / tmp8)
    tmp18 = (tmp9 / tmp16)
    tmp19 = tmp17 * tmp18
    tmp20 = tl.broadcast_to(tmp19, [XBLOCK, R0_BLOCK])
    tmp22 = tl.where(xmask, tmp20, 0)
    tmp23 = tl.sum(tmp22, 1)[:, None].to(tl.float32)
    tmp24 = tmp23 * tmp18
    tmp25 = -tmp24
    tmp26 = (tmp17 / tmp8)
    tmp27 = tmp25 * tmp26
    tmp28 = tl.broadcast_to(tmp27, [XBLOCK, R0_BLOCK])
    tmp30 = tl.where(xmask, tmp28, 0)
    tmp31 = tl.sum(tmp30, 1)[:, None].to(tl.float32)
    tmp32 = tmp23 * tmp17
    tmp33 = -tmp32
    tmp34 = (tmp18 / tmp16)
    tmp35 = tmp33 * tmp34
    tmp36 = tl.broadcast_to(tmp35, [XBLOCK, R0_BLOCK])
    tmp38 = tl.where(xmask, tmp36, 0)
    tmp39 = tl.sum(tmp38, 1)[:, None].to(tl.float32)
    tmp40 = tl.full([1, 1], 0.0, tl.float32)
    tmp41 = tmp16 == tmp40
    tmp42 = tl.where(tmp41, tmp40, tmp18)
    tmp43 = (tmp32 / tmp16)
    tmp44 = tmp39 * tmp42
    tmp45 = tmp43 + tmp44
    tmp46 = tmp8 == tmp40
    tmp47 = tl.where(tmp46, tmp40, tmp17)
    tmp48 = (tmp24 / tmp8)
    tmp49 = tmp31 * tmp47
    tmp50 = tmp48 + tmp49
    tl.store(tl.make_block_ptr(out_ptr8, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp45, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
    tl.store(tl.make_block_ptr(out_ptr10, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp50, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
    tl.store(tl.make_block_ptr(out_ptr4, shape=[2048], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp23, [XBLOCK, 1]), [XBLOCK]).to(tl.float32), boundary_check=[0])


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
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
    return sum_3, add, add_1


def kernel(arg0_1, arg1_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr4 = torch.empty_strided((2048,), (1,), dtype=torch.float32, device=arg0_1.device)
    out_ptr8 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr10 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr4, out_ptr8, out_ptr10, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4, out_ptr8, out_ptr10
