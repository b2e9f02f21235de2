"""Pointwise by Inductor: of stack_three, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1572864
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 1536)
    x1 = xindex // 1536
    x2 = xindex
    tmp0 = (x0).to(tl.int32)
    tmp1 = tl.full([1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = (x0).to(tl.int64)
    tmp4 = (tmp3).to(tl.int64)
    tmp5 = tl.full([1], 512, tl.int64)
    tmp6 = tmp4 < tmp5
    tmp7 = tl.load(in_ptr0 + (512*x1 + (x0)), tmp6, eviction_policy='evict_last', other=0.0)
    tmp8 = tl.load(in_ptr1 + (512*x1 + (x0)), tmp6, eviction_policy='evict_last', other=0.0)
    tmp9 = tmp7 + tmp8
    tmp10 = tl.full(tmp9.shape, 0.0, tmp9.dtype)
    tmp11 = tl.where(tmp6, tmp9, tmp10)
    tmp12 = tmp4 >= tmp5
    tmp13 = tl.full([1], 1024, tl.int64)
    tmp14 = tmp4 < tmp13
    tmp15 = tmp12 & tmp14
    tmp16 = tl.load(in_ptr1 + (512*x1 + ((-512) + x0)), tmp15, eviction_policy='evict_last', other=0.0)
    tmp17 = tl.load(in_ptr2 + (512*x1 + ((-512) + x0)), tmp15, eviction_policy='evict_last', other=0.0)
    tmp18 = tmp16 + tmp17
    tmp19 = tl.full(tmp18.shape, 0.0, tmp18.dtype)
    tmp20 = tl.where(tmp15, tmp18, tmp19)
    tmp21 = tmp0 >= tmp13
    tmp22 = tl.full([1], 1536, tl.int64)
    tmp23 = tmp0 < tmp22
    tmp24 = tl.load(in_ptr2 + (512*x1 + ((-1024) + x0)), tmp21, eviction_policy='evict_last', other=0.0)
    tmp25 = tl.load(in_ptr0 + (512*x1 + ((-1024) + x0)), tmp21, eviction_policy='evict_last', other=0.0)
    tmp26 = tmp24 + tmp25
    tmp27 = tl.full(tmp26.shape, 0.0, tmp26.dtype)
    tmp28 = tl.where(tmp21, tmp26, tmp27)
    tmp29 = tl.where(tmp15, tmp20, tmp28)
    tmp30 = tl.where(tmp6, tmp11, tmp29)
    tl.store(out_ptr0 + (x2), tmp30, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1572864 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((1024, 512), dtype=torch.float32, device=device)
    y_1 = torch.randn((1024, 512), dtype=torch.float32, device=device)
    z_1 = torch.randn((1024, 512), dtype=torch.float32, device=device)
    return (x_1, y_1, z_1,)


def reference(x_1, y_1, z_1):
    add = aten.add.Tensor(x_1, y_1)
    add_1 = aten.add.Tensor(y_1, z_1)
    add_2 = aten.add.Tensor(z_1, x_1)
    cat = aten.cat.default([add, add_1, add_2], 1)
    return cat


def kernel(x_1, y_1, z_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 1536), (1536, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1572864, XBLOCK),)
    fused_kernel[grid](x_1, y_1, z_1, out_ptr0, 1572864, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
