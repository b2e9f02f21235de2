"""Pointwise by Inductor: of rope_halves, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1920000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x4 = xindex
    x0 = (xindex % 80)
    x2 = ((xindex // 960) % 1000)
    x5 = xindex // 80
    tmp0 = tl.load(in_ptr0 + (x4), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0 + 80*x2), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp19 = tl.load(in_ptr2 + (x0 + 80*x2), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = (x0).to(tl.int32)
    tmp4 = tl.full([1], 0, tl.int64)
    tmp5 = tmp3 >= tmp4
    tmp6 = (x0).to(tl.int64)
    tmp7 = (tmp6).to(tl.int64)
    tmp8 = tl.full([1], 40, tl.int64)
    tmp9 = tmp7 < tmp8
    tmp10 = tl.load(in_ptr0 + (40 + 80*x5 + (x0)), tmp9 & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp11 = -tmp10
    tmp12 = tl.full(tmp11.shape, 0.0, tmp11.dtype)
    tmp13 = tl.where(tmp9, tmp11, tmp12)
    tmp14 = tmp3 >= tmp8
    tmp15 = tl.full([1], 80, tl.int64)
    tmp16 = tmp3 < tmp15
    tmp17 = tl.load(in_ptr0 + (80*x5 + ((-40) + x0)), tmp14 & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp18 = tl.where(tmp9, tmp13, tmp17)
    tmp20 = tmp18 * tmp19
    tmp21 = tmp2 + tmp20
    tl.store(out_ptr0 + (x4), tmp21, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1920000 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((2, 1000, 12, 80), dtype=torch.float16, device=device)
    cos_1 = torch.randn((1000, 80), dtype=torch.float16, device=device)
    sin_1 = torch.randn((1000, 80), dtype=torch.float16, device=device)
    return (x_1, cos_1, sin_1,)


def reference(x_1, cos_1, sin_1):
    unsqueeze = aten.unsqueeze.default(cos_1, 0)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 2)
    x_1 = x_1.float()
    unsqueeze_1 = unsqueeze_1.float()
    mul = aten.mul.Tensor(x_1, unsqueeze_1)
    slice_1 = aten.slice.Tensor(x_1, 3, 40, 9223372036854775807)
    neg = aten.neg.default(slice_1)
    slice_2 = aten.slice.Tensor(x_1, 3, 0, 40)
    cat = aten.cat.default([neg, slice_2], -1)
    unsqueeze_2 = aten.unsqueeze.default(sin_1, 0)
    unsqueeze_3 = aten.unsqueeze.default(unsqueeze_2, 2)
    unsqueeze_3 = unsqueeze_3.float()
    mul_1 = aten.mul.Tensor(cat, unsqueeze_3)
    add = aten.add.Tensor(mul, mul_1)
    return add.to(torch.float16)


def kernel(x_1, cos_1, sin_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2, 1000, 12, 80), (960000, 960, 80, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(1920000, XBLOCK),)
    fused_kernel[grid](x_1, cos_1, sin_1, out_ptr0, 1920000, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
