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
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
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
        tmp24 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp26 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp25 = (tmp24 / tmp11)
        tmp27 = (tmp26 / tmp23)
        tmp28 = tmp25 * tmp27
        tmp29 = tl.broadcast_to(tmp28, [XBLOCK, R0_BLOCK])
        tmp31 = _tmp30 + tmp29
        _tmp30 = tl.where(r0_mask & xmask, tmp31, _tmp30)
    tmp30 = tl.sum(_tmp30, 1)[:, None]
    tl.store(out_ptr4 + (x0), tmp30, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    y_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    convert_element_type_2 = y_1.to(torch.float32)
    pow_3 = aten.pow.Tensor_Scalar(convert_element_type_2, 2)
    sum_2 = aten.sum.dim_IntList(pow_3, [1], True)
    pow_4 = aten.pow.Tensor_Scalar(sum_2, 0.5)
    convert_element_type_3 = pow_4.clone()
    convert_element_type = x_1.to(torch.float32)
    pow_1 = aten.pow.Tensor_Scalar(convert_element_type, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    convert_element_type_1 = pow_2.clone()
    scalar_tensor = aten.scalar_tensor.default(1e-08, dtype=torch.float32, device=x_1.device)
    clamp_min = aten.clamp_min.Tensor(convert_element_type_1, scalar_tensor)
    copy_ = aten.copy_.default(convert_element_type_1, clamp_min)
    clamp_min_1 = aten.clamp_min.Tensor(convert_element_type_3, scalar_tensor)
    copy__1 = aten.copy_.default(convert_element_type_3, clamp_min_1)
    y_1 = y_1.float()
    div = aten.div.Tensor(y_1, copy__1)
    x_1 = x_1.float()
    div_1 = aten.div.Tensor(x_1, copy_)
    mul = aten.mul.Tensor(div_1, div)
    sum_3 = aten.sum.dim_IntList(mul, [1])
    return sum_3.to(torch.float16)


def kernel(x_1, y_1, *, XBLOCK=1, R0_BLOCK=8192, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((333,), (1,), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr4, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4
