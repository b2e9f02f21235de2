"""Pointwise by Inductor: of rope_halves, bfloat16."""

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
    x4 = xindex
    x0 = (xindex % 64)
    x2 = ((xindex // 512) % 512)
    x5 = xindex // 64
    tmp0 = tl.load(in_ptr0 + (x4), None).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0 + 64*x2), None, eviction_policy='evict_last').to(tl.float32)
    tmp19 = tl.load(in_ptr2 + (x0 + 64*x2), None, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = (x0).to(tl.int32)
    tmp4 = tl.full([1], 0, tl.int64)
    tmp5 = tmp3 >= tmp4
    tmp6 = (x0).to(tl.int64)
    tmp7 = (tmp6).to(tl.int64)
    tmp8 = tl.full([1], 32, tl.int64)
    tmp9 = tmp7 < tmp8
    tmp10 = tl.load(in_ptr0 + (32 + 64*x5 + (x0)), tmp9, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp11 = -tmp10
    tmp12 = tl.full(tmp11.shape, 0.0, tmp11.dtype)
    tmp13 = tl.where(tmp9, tmp11, tmp12)
    tmp14 = tmp3 >= tmp8
    tmp15 = tl.full([1], 64, tl.int64)
    tmp16 = tmp3 < tmp15
    tmp17 = tl.load(in_ptr0 + (64*x5 + ((-32) + x0)), tmp14, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp18 = tl.where(tmp9, tmp13, tmp17)
    tmp20 = tmp18 * tmp19
    tmp21 = tmp2 + tmp20
    tl.store(out_ptr0 + (x4), tmp21, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((4, 512, 8, 64), dtype=torch.bfloat16, device=device)
    cos_1 = torch.randn((512, 64), dtype=torch.bfloat16, device=device)
    sin_1 = torch.randn((512, 64), dtype=torch.bfloat16, device=device)
    return (x_1, cos_1, sin_1,)


def reference(x_1, cos_1, sin_1):
    unsqueeze = aten.unsqueeze.default(cos_1, 0)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 2)
    x_1 = x_1.float()
    unsqueeze_1 = unsqueeze_1.float()
    mul = aten.mul.Tensor(x_1, unsqueeze_1)
    slice_1 = aten.slice.Tensor(x_1, 3, 32, 9223372036854775807)
    neg = aten.neg.default(slice_1)
    slice_2 = aten.slice.Tensor(x_1, 3, 0, 32)
    cat = aten.cat.default([neg, slice_2], -1)
    unsqueeze_2 = aten.unsqueeze.default(sin_1, 0)
    unsqueeze_3 = aten.unsqueeze.default(unsqueeze_2, 2)
    unsqueeze_3 = unsqueeze_3.float()
    mul_1 = aten.mul.Tensor(cat, unsqueeze_3)
    add = aten.add.Tensor(mul, mul_1)
    return add.to(torch.bfloat16)


def kernel(x_1, cos_1, sin_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((4, 512, 8, 64), (262144, 512, 64, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(1048576, XBLOCK),)
    fused_kernel[grid](x_1, cos_1, sin_1, out_ptr0, 1048576, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
