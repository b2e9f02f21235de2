"""Pointwise by Inductor: of group_norm, float32."""

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
    tmp1 = tl.load(in_ptr1 + (6*x0), xmask, eviction_policy='evict_last')
    tmp3 = tl.load(in_ptr0 + (1 + 6*x2), xmask, eviction_policy='evict_last')
    tmp4 = tl.load(in_ptr1 + (1 + 6*x0), xmask, eviction_policy='evict_last')
    tmp7 = tl.load(in_ptr0 + (2 + 6*x2), xmask, eviction_policy='evict_last')
    tmp8 = tl.load(in_ptr1 + (2 + 6*x0), xmask, eviction_policy='evict_last')
    tmp11 = tl.load(in_ptr0 + (3 + 6*x2), xmask, eviction_policy='evict_last')
    tmp12 = tl.load(in_ptr1 + (3 + 6*x0), xmask, eviction_policy='evict_last')
    tmp15 = tl.load(in_ptr0 + (4 + 6*x2), xmask, eviction_policy='evict_last')
    tmp16 = tl.load(in_ptr1 + (4 + 6*x0), xmask, eviction_policy='evict_last')
    tmp19 = tl.load(in_ptr0 + (5 + 6*x2), xmask, eviction_policy='evict_last')
    tmp20 = tl.load(in_ptr1 + (5 + 6*x0), xmask, eviction_policy='evict_last')
    tmp23 = tl.load(in_ptr2 + (6*x2), xmask, eviction_policy='evict_last')
    tmp25 = tl.load(in_ptr2 + (1 + 6*x2), xmask, eviction_policy='evict_last')
    tmp28 = tl.load(in_ptr2 + (2 + 6*x2), xmask, eviction_policy='evict_last')
    tmp31 = tl.load(in_ptr2 + (3 + 6*x2), xmask, eviction_policy='evict_last')
    tmp34 = tl.load(in_ptr2 + (4 + 6*x2), xmask, eviction_policy='evict_last')
    tmp37 = tl.load(in_ptr2 + (5 + 6*x2), xmask, eviction_policy='evict_last')
    tmp2 = tmp0 * tmp1
    tmp5 = tmp3 * tmp4
    tmp6 = tmp2 + tmp5
    tmp9 = tmp7 * tmp8
    tmp10 = tmp6 + tmp9
    tmp13 = tmp11 * tmp12
    tmp14 = tmp10 + tmp13
    tmp17 = tmp15 * tmp16
    tmp18 = tmp14 + tmp17
    tmp21 = tmp19 * tmp20
    tmp22 = tmp18 + tmp21
    tmp24 = tmp23 * tmp1
    tmp26 = tmp25 * tmp4
    tmp27 = tmp24 + tmp26
    tmp29 = tmp28 * tmp8
    tmp30 = tmp27 + tmp29
    tmp32 = tmp31 * tmp12
    tmp33 = tmp30 + tmp32
    tmp35 = tmp34 * tmp16
    tmp36 = tmp33 + tmp35
    tmp38 = tmp37 * tmp20
    tmp39 = tmp36 + tmp38
    tl.store(out_ptr0 + (x2), tmp22, xmask)
    tl.store(out_ptr1 + (x2), tmp39, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_2 = torch.empty((3, 48), dtype=torch.float32, device=device).normal_(174, 9.62e+03)
    arg1_1 = torch.empty((48,), dtype=torch.float32, device=device).normal_(-0.0802, 1.12)
    sum_1 = torch.empty((3, 48), dtype=torch.float32, device=device).normal_(-773, 1.05e+04)
    return (sum_2, arg1_1, sum_1,)


def reference(sum_2, arg1_1, sum_1):
    unsqueeze_5 = aten.unsqueeze.default(arg1_1, 0)
    mul_5 = aten.mul.Tensor(sum_2, unsqueeze_5)
    view_6 = aten.reshape.default(mul_5, [3, 8, 6])
    sum_4 = aten.sum.dim_IntList(view_6, [2])
    unsqueeze_4 = aten.unsqueeze.default(arg1_1, 0)
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
