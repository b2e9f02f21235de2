"""Persistent reduction by Inductor: of add_layer_norm, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 2048
    r0_numel = 1024
    R0_BLOCK: tl.constexpr = 1024
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
    tmp0 = tl.load(in_ptr0 + (r0_1 + 1024*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (r0_1 + 1024*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp26 = tl.load(in_ptr2 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp29 = tl.load(in_ptr3 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp2.to(tl.float32)
    tmp4 = tl.broadcast_to(tmp3, [XBLOCK, R0_BLOCK])
    tmp6 = tl.where(xmask, tmp4, 0)
    tmp7 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tmp11 = (tl.full([1, 1], 1024, tl.int32)).to(tl.float32)
    tmp12 = (tmp10 / tmp11)
    tmp13 = tmp4 - tmp12
    tmp14 = tmp13 * tmp13
    tmp15 = tl.broadcast_to(tmp14, [XBLOCK, R0_BLOCK])
    tmp17 = tl.where(xmask, tmp15, 0)
    tmp18 = tl.sum(tmp17, 1)[:, None].to(tl.float32)
    tmp19 = tmp3 - tmp12
    tmp20 = tl.full([1, 1], 1024.0, tl.float32)
    tmp21 = (tmp18 / tmp20)
    tmp22 = tl.full([1, 1], 1e-05, tl.float32)
    tmp23 = tmp21 + tmp22
    tmp24 = libdevice.rsqrt(tmp23)
    tmp25 = tmp19 * tmp24
    tmp27 = tmp26.to(tl.float32)
    tmp28 = tmp25 * tmp27
    tmp30 = tmp29.to(tl.float32)
    tmp31 = tmp28 + tmp30
    tmp32 = tmp31.to(tl.float32)
    tl.store(out_ptr2 + (r0_1 + 1024*x0), tmp32, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.float16, device=device)
    y_1 = torch.randn((2048, 1024), dtype=torch.float16, device=device)
    w_1 = torch.empty((1024,), dtype=torch.float16, device=device).normal_(0.0257, 0.971)
    b_1 = torch.empty((1024,), dtype=torch.float16, device=device).normal_(-0.0231, 1)
    return (x_1, y_1, w_1, b_1,)


def reference(x_1, y_1, w_1, b_1):
    x_1 = x_1.float()
    y_1 = y_1.float()
    add = aten.add.Tensor(x_1, y_1)
    var_mean = aten.var_mean.correction(add, [1], correction=0, keepdim=True)
    getitem = var_mean[0]
    getitem_1 = var_mean[1]
    add_1 = aten.add.Tensor(getitem, 1e-05)
    rsqrt = aten.rsqrt.default(add_1)
    sub = aten.sub.Tensor(add, getitem_1)
    mul = aten.mul.Tensor(sub, rsqrt)
    w_1 = w_1.float()
    mul_1 = aten.mul.Tensor(mul, w_1)
    b_1 = b_1.float()
    add_2 = aten.add.Tensor(mul_1, b_1)
    return add_2.to(torch.float16)


def kernel(x_1, y_1, w_1, b_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, y_1, w_1, b_1, out_ptr2, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
