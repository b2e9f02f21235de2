"""Persistent reduction by Inductor: of linear_add_norm, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 512
    r0_numel = 512
    R0_BLOCK: tl.constexpr = 512
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
    tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (r0_1 + 512*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp26 = tl.load(in_ptr2 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp2.to(tl.float32)
    tmp4 = tl.broadcast_to(tmp3, [XBLOCK, R0_BLOCK])
    tmp6 = tl.where(xmask, tmp4, 0)
    tmp7 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tmp11 = (tl.full([1, 1], 512, tl.int32)).to(tl.float32)
    tmp12 = (tmp10 / tmp11)
    tmp13 = tmp4 - tmp12
    tmp14 = tmp13 * tmp13
    tmp15 = tl.broadcast_to(tmp14, [XBLOCK, R0_BLOCK])
    tmp17 = tl.where(xmask, tmp15, 0)
    tmp18 = tl.sum(tmp17, 1)[:, None].to(tl.float32)
    tmp19 = tmp3 - tmp12
    tmp20 = tl.full([1, 1], 512.0, tl.float32)
    tmp21 = (tmp18 / tmp20)
    tmp22 = tl.full([1, 1], 1e-05, tl.float32)
    tmp23 = tmp21 + tmp22
    tmp24 = libdevice.rsqrt(tmp23)
    tmp25 = tmp19 * tmp24
    tmp27 = tmp26.to(tl.float32)
    tmp28 = tmp25 * tmp27
    tmp29 = tmp28.to(tl.float32)
    tl.store(out_ptr2 + (r0_1 + 512*x0), tmp29, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 512
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    mm = torch.empty((512, 512), dtype=torch.bfloat16, device=device).normal_(0.088, 22.6)
    r_1 = torch.randn((512, 512), dtype=torch.bfloat16, device=device)
    g_1 = torch.empty((512,), dtype=torch.bfloat16, device=device).normal_(-0.0152, 1.05)
    return (mm, r_1, g_1,)


def reference(mm, r_1, g_1):
    mm = mm.float()
    r_1 = r_1.float()
    add = aten.add.Tensor(mm, r_1)
    var_mean = aten.var_mean.correction(add, [1], correction=0, keepdim=True)
    getitem = var_mean[0]
    getitem_1 = var_mean[1]
    add_1 = aten.add.Tensor(getitem, 1e-05)
    rsqrt = aten.rsqrt.default(add_1)
    sub = aten.sub.Tensor(add, getitem_1)
    mul = aten.mul.Tensor(sub, rsqrt)
    g_1 = g_1.float()
    mul_1 = aten.mul.Tensor(mul, g_1)
    return mul_1.to(torch.bfloat16)


def kernel(mm, r_1, g_1, *, XBLOCK=1, num_warps=4, num_stages=1):
    out_ptr2 = torch.empty_strided((512, 512), (512, 1), dtype=torch.bfloat16, device=mm.device)
    grid = (triton.cdiv(512, XBLOCK),)
    fused_kernel[grid](mm, r_1, g_1, out_ptr2, 512, 512, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
