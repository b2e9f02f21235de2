"""Pointwise by Inductor: of convolution_norm_residual, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, xnumel, XBLOCK : tl.constexpr):
    xnumel = 32
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 8)
    tmp0 = tl.load(in_ptr0 + (4*x2), xmask, eviction_policy='evict_last')
    tmp1 = tl.load(in_ptr1 + (4*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp4 = tl.load(in_ptr0 + (1 + 4*x2), xmask, eviction_policy='evict_last')
    tmp5 = tl.load(in_ptr1 + (1 + 4*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp9 = tl.load(in_ptr0 + (2 + 4*x2), xmask, eviction_policy='evict_last')
    tmp10 = tl.load(in_ptr1 + (2 + 4*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp14 = tl.load(in_ptr0 + (3 + 4*x2), xmask, eviction_policy='evict_last')
    tmp15 = tl.load(in_ptr1 + (3 + 4*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp19 = tl.load(in_ptr2 + (x2), xmask)
    tmp23 = tl.load(in_ptr3 + (4*x2), xmask, eviction_policy='evict_last')
    tmp25 = tl.load(in_ptr3 + (1 + 4*x2), xmask, eviction_policy='evict_last')
    tmp28 = tl.load(in_ptr3 + (2 + 4*x2), xmask, eviction_policy='evict_last')
    tmp31 = tl.load(in_ptr3 + (3 + 4*x2), xmask, eviction_policy='evict_last')
    tmp2 = tmp1.to(tl.float32)
    tmp3 = tmp0 * tmp2
    tmp6 = tmp5.to(tl.float32)
    tmp7 = tmp4 * tmp6
    tmp8 = tmp3 + tmp7
    tmp11 = tmp10.to(tl.float32)
    tmp12 = tmp9 * tmp11
    tmp13 = tmp8 + tmp12
    tmp16 = tmp15.to(tl.float32)
    tmp17 = tmp14 * tmp16
    tmp18 = tmp13 + tmp17
    tmp20 = tmp19.to(tl.float32)
    tmp21 = tmp20.to(tl.float32)
    tmp22 = tmp18 * tmp21
    tmp24 = tmp23 * tmp2
    tmp26 = tmp25 * tmp6
    tmp27 = tmp24 + tmp26
    tmp29 = tmp28 * tmp11
    tmp30 = tmp27 + tmp29
    tmp32 = tmp31 * tmp16
    tmp33 = tmp30 + tmp32
    tmp34 = tmp22 - tmp33
    tl.store(out_ptr0 + (x2), tmp18, xmask)
    tl.store(out_ptr1 + (x2), tmp34, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_2 = torch.empty((4, 32), dtype=torch.float32, device=device).normal_(214, 245)
    arg2_1 = torch.empty((32,), dtype=torch.bfloat16, device=device).normal_(-0.0803, 0.966)
    getitem_1 = torch.empty((32,), dtype=torch.float32, device=device).normal_(0.0889, 0.211).as_strided((4, 8, 1, 1), (8, 1, 32, 32))
    sum_1 = torch.empty((4, 32), dtype=torch.float32, device=device).normal_(-315, 7.56e+03)
    return (sum_2, arg2_1, getitem_1, sum_1,)


def reference(sum_2, arg2_1, getitem_1, sum_1):
    convert_element_type_13 = arg2_1.to(torch.float32)
    unsqueeze_5 = aten.unsqueeze.default(convert_element_type_13, 0)
    mul_8 = aten.mul.Tensor(sum_2, unsqueeze_5)
    view_5 = aten.reshape.default(mul_8, [4, 8, 4])
    sum_4 = aten.sum.dim_IntList(view_5, [2])
    squeeze = aten.squeeze.dims(getitem_1, [2, 3])
    mul_10 = aten.mul.Tensor(sum_4, squeeze)
    unsqueeze_4 = aten.unsqueeze.default(convert_element_type_13, 0)
    mul_7 = aten.mul.Tensor(sum_1, unsqueeze_4)
    view_4 = aten.reshape.default(mul_7, [4, 8, 4])
    sum_3 = aten.sum.dim_IntList(view_4, [2])
    sub_1 = aten.sub.Tensor(mul_10, sum_3)
    return sum_4, sub_1


def kernel(sum_2, arg2_1, getitem_1, sum_1, *, XBLOCK=32, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((4, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    out_ptr1 = torch.empty_strided((4, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    grid = (triton.cdiv(32, XBLOCK),)
    fused_kernel[grid](sum_2, arg2_1, getitem_1, sum_1, out_ptr0, out_ptr1, 32, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
