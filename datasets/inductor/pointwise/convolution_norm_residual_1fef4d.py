"""Pointwise by Inductor: of convolution_norm_residual, float32."""

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
    tmp1 = tl.load(in_ptr1 + (4*x0), xmask, eviction_policy='evict_last')
    tmp3 = tl.load(in_ptr0 + (1 + 4*x2), xmask, eviction_policy='evict_last')
    tmp4 = tl.load(in_ptr1 + (1 + 4*x0), xmask, eviction_policy='evict_last')
    tmp7 = tl.load(in_ptr0 + (2 + 4*x2), xmask, eviction_policy='evict_last')
    tmp8 = tl.load(in_ptr1 + (2 + 4*x0), xmask, eviction_policy='evict_last')
    tmp11 = tl.load(in_ptr0 + (3 + 4*x2), xmask, eviction_policy='evict_last')
    tmp12 = tl.load(in_ptr1 + (3 + 4*x0), xmask, eviction_policy='evict_last')
    tmp15 = tl.load(in_ptr2 + (x2), xmask)
    tmp17 = tl.load(in_ptr3 + (4*x2), xmask, eviction_policy='evict_last')
    tmp19 = tl.load(in_ptr3 + (1 + 4*x2), xmask, eviction_policy='evict_last')
    tmp22 = tl.load(in_ptr3 + (2 + 4*x2), xmask, eviction_policy='evict_last')
    tmp25 = tl.load(in_ptr3 + (3 + 4*x2), xmask, eviction_policy='evict_last')
    tmp2 = tmp0 * tmp1
    tmp5 = tmp3 * tmp4
    tmp6 = tmp2 + tmp5
    tmp9 = tmp7 * tmp8
    tmp10 = tmp6 + tmp9
    tmp13 = tmp11 * tmp12
    tmp14 = tmp10 + tmp13
    tmp16 = tmp14 * tmp15
    tmp18 = tmp17 * tmp1
    tmp20 = tmp19 * tmp4
    tmp21 = tmp18 + tmp20
    tmp23 = tmp22 * tmp8
    tmp24 = tmp21 + tmp23
    tmp26 = tmp25 * tmp12
    tmp27 = tmp24 + tmp26
    tmp28 = tmp16 - tmp27
    tl.store(out_ptr0 + (x2), tmp14, xmask)
    tl.store(out_ptr1 + (x2), tmp28, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_2 = torch.empty((4, 32), dtype=torch.float32, device=device).normal_(214, 246)
    arg2_1 = torch.empty((32,), dtype=torch.float32, device=device).normal_(-0.0796, 0.966)
    getitem_1 = torch.empty((4, 8, 1, 1), dtype=torch.float32, device=device).normal_(0.0892, 0.211)
    sum_1 = torch.empty((4, 32), dtype=torch.float32, device=device).normal_(-309, 7.57e+03)
    return (sum_2, arg2_1, getitem_1, sum_1,)


def reference(sum_2, arg2_1, getitem_1, sum_1):
    unsqueeze_5 = aten.unsqueeze.default(arg2_1, 0)
    mul_8 = aten.mul.Tensor(sum_2, unsqueeze_5)
    view_5 = aten.reshape.default(mul_8, [4, 8, 4])
    sum_4 = aten.sum.dim_IntList(view_5, [2])
    squeeze = aten.squeeze.dims(getitem_1, [2, 3])
    mul_10 = aten.mul.Tensor(sum_4, squeeze)
    unsqueeze_4 = aten.unsqueeze.default(arg2_1, 0)
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
