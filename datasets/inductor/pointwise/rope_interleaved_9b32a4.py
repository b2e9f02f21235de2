"""Pointwise by Inductor: of rope_interleaved, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1048576
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 2)
    x5 = xindex // 2
    x1 = ((xindex // 2) % 32)
    x3 = ((xindex // 512) % 512)
    x6 = xindex
    tmp0 = (x0).to(tl.int32)
    tmp1 = tl.full([1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = (x0).to(tl.int64)
    tmp4 = (tmp3).to(tl.int64)
    tmp5 = tl.full([1], 1, tl.int64)
    tmp6 = tmp4 < tmp5
    tmp7 = tl.load(in_ptr0 + (2*x5), tmp6, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp8 = tl.load(in_ptr1 + (x1 + 32*x3), tmp6, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp9 = tmp7 * tmp8
    tmp10 = tl.load(in_ptr0 + (1 + 2*x5), tmp6, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp11 = tl.load(in_ptr2 + (x1 + 32*x3), tmp6, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp12 = tmp10 * tmp11
    tmp13 = tmp9 - tmp12
    tmp14 = tl.full(tmp13.shape, 0.0, tmp13.dtype)
    tmp15 = tl.where(tmp6, tmp13, tmp14)
    tmp16 = tmp0 >= tmp5
    tmp17 = tl.full([1], 2, tl.int64)
    tmp18 = tmp0 < tmp17
    tmp19 = tl.load(in_ptr0 + (2*x5), tmp16, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp20 = tl.load(in_ptr2 + (x1 + 32*x3), tmp16, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp21 = tmp19 * tmp20
    tmp22 = tl.load(in_ptr0 + (1 + 2*x5), tmp16, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp23 = tl.load(in_ptr1 + (x1 + 32*x3), tmp16, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp24 = tmp22 * tmp23
    tmp25 = tmp21 + tmp24
    tmp26 = tl.full(tmp25.shape, 0.0, tmp25.dtype)
    tmp27 = tl.where(tmp16, tmp25, tmp26)
    tmp28 = tl.where(tmp6, tmp15, tmp27)
    tl.store(out_ptr0 + (x6), tmp28, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((4, 512, 8, 64), dtype=torch.bfloat16, device=device)
    cos_1 = torch.randn((512, 32), dtype=torch.bfloat16, device=device)
    sin_1 = torch.randn((512, 32), dtype=torch.bfloat16, device=device)
    return (x_1, cos_1, sin_1,)


def reference(x_1, cos_1, sin_1):
    slice_1 = aten.slice.Tensor(x_1, 3, 0, 9223372036854775807, 2)
    unsqueeze = aten.unsqueeze.default(cos_1, 0)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 2)
    slice_1 = slice_1.float()
    unsqueeze_1 = unsqueeze_1.float()
    mul = aten.mul.Tensor(slice_1, unsqueeze_1)
    slice_2 = aten.slice.Tensor(x_1, 3, 1, 9223372036854775807, 2)
    unsqueeze_2 = aten.unsqueeze.default(sin_1, 0)
    unsqueeze_3 = aten.unsqueeze.default(unsqueeze_2, 2)
    slice_2 = slice_2.float()
    unsqueeze_3 = unsqueeze_3.float()
    mul_1 = aten.mul.Tensor(slice_2, unsqueeze_3)
    sub = aten.sub.Tensor(mul, mul_1)
    unsqueeze_4 = aten.unsqueeze.default(sub, 4)
    mul_2 = aten.mul.Tensor(slice_1, unsqueeze_3)
    mul_3 = aten.mul.Tensor(slice_2, unsqueeze_1)
    add = aten.add.Tensor(mul_2, mul_3)
    unsqueeze_5 = aten.unsqueeze.default(add, 4)
    cat = aten.cat.default([unsqueeze_4, unsqueeze_5], -1)
    return cat.to(torch.bfloat16)


def kernel(x_1, cos_1, sin_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((4, 512, 8, 32, 2), (262144, 512, 64, 2, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(1048576, XBLOCK),)
    fused_kernel[grid](x_1, cos_1, sin_1, out_ptr0, 1048576, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
