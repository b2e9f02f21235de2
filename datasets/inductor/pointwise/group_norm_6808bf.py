"""Pointwise by Inductor: of group_norm, float16."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 7}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, xnumel, XBLOCK : tl.constexpr):
    xnumel = 24
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 8)
    tmp0 = tl.load(in_ptr0 + (6*x2), xmask, eviction_policy='evict_last')
    tmp1 = tl.load(in_ptr1 + (6*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp4 = tl.load(in_ptr0 + (1 + 6*x2), xmask, eviction_policy='evict_last')
    tmp5 = tl.load(in_ptr1 + (1 + 6*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp9 = tl.load(in_ptr0 + (2 + 6*x2), xmask, eviction_policy='evict_last')
    tmp10 = tl.load(in_ptr1 + (2 + 6*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp14 = tl.load(in_ptr0 + (3 + 6*x2), xmask, eviction_policy='evict_last')
    tmp15 = tl.load(in_ptr1 + (3 + 6*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp19 = tl.load(in_ptr0 + (4 + 6*x2), xmask, eviction_policy='evict_last')
    tmp20 = tl.load(in_ptr1 + (4 + 6*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp24 = tl.load(in_ptr0 + (5 + 6*x2), xmask, eviction_policy='evict_last')
    tmp25 = tl.load(in_ptr1 + (5 + 6*x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp29 = tl.load(in_ptr2 + (6*x2), xmask, eviction_policy='evict_last')
    tmp31 = tl.load(in_ptr2 + (1 + 6*x2), xmask, eviction_policy='evict_last')
    tmp34 = tl.load(in_ptr2 + (2 + 6*x2), xmask, eviction_policy='evict_last')
    tmp37 = tl.load(in_ptr2 + (3 + 6*x2), xmask, eviction_policy='evict_last')
    tmp40 = tl.load(in_ptr2 + (4 + 6*x2), xmask, eviction_policy='evict_last')
    tmp43 = tl.load(in_ptr2 + (5 + 6*x2), xmask, eviction_policy='evict_last')
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
    tmp21 = tmp20.to(tl.float32)
    tmp22 = tmp19 * tmp21
    tmp23 = tmp18 + tmp22
    tmp26 = tmp25.to(tl.float32)
    tmp27 = tmp24 * tmp26
    tmp28 = tmp23 + tmp27
    tmp30 = tmp29 * tmp2
    tmp32 = tmp31 * tmp6
    tmp33 = tmp30 + tmp32
    tmp35 = tmp34 * tmp11
    tmp36 = tmp33 + tmp35
    tmp38 = tmp37 * tmp16
    tmp39 = tmp36 + tmp38
    tmp41 = tmp40 * tmp21
    tmp42 = tmp39 + tmp41
    tmp44 = tmp43 * tmp26
    tmp45 = tmp42 + tmp44
    tl.store(out_ptr0 + (x2), tmp28, xmask)
    tl.store(out_ptr1 + (x2), tmp45, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_2 = torch.empty((3, 48), dtype=torch.float32, device=device).normal_(174, 9.62e+03)
    arg1_1 = torch.empty((48,), dtype=torch.float16, device=device).normal_(-0.0802, 1.12)
    sum_1 = torch.empty((3, 48), dtype=torch.float32, device=device).normal_(-773, 1.05e+04)
    return (sum_2, arg1_1, sum_1,)


def reference(sum_2, arg1_1, sum_1):
    convert_element_type_8 = arg1_1.to(torch.float32)
    unsqueeze_5 = aten.unsqueeze.default(convert_element_type_8, 0)
    mul_5 = aten.mul.Tensor(sum_2, unsqueeze_5)
    view_6 = aten.reshape.default(mul_5, [3, 8, 6])
    sum_4 = aten.sum.dim_IntList(view_6, [2])
    unsqueeze_4 = aten.unsqueeze.default(convert_element_type_8, 0)
    mul_4 = aten.mul.Tensor(sum_1, unsqueeze_4)
    view_5 = aten.reshape.default(mul_4, [3, 8, 6])
    sum_3 = aten.sum.dim_IntList(view_5, [2])
    return sum_4, sum_3


def kernel(sum_2, arg1_1, sum_1, *, XBLOCK=32, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((3, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    out_ptr1 = torch.empty_strided((3, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    grid = (triton.cdiv(24, XBLOCK),)
    fused_kernel[grid](sum_2, arg1_1, sum_1, out_ptr0, out_ptr1, 24, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
