"""Persistent reduction by Inductor: of layer_norm_gelu, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr3, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp24 = tl.load(in_ptr1 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp27 = tl.load(in_ptr2 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.where(xmask, tmp2, 0)
    tmp5 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp7 = tl.where(xmask, tmp5, 0)
    tmp8 = tl.sum(tmp7, 1)[:, None].to(tl.float32)
    tmp9 = (tl.full([1, 1], 1024, tl.int32)).to(tl.float32)
    tmp10 = (tmp8 / tmp9)
    tmp11 = tmp2 - tmp10
    tmp12 = tmp11 * tmp11
    tmp13 = tl.broadcast_to(tmp12, [XBLOCK, R0_BLOCK])
    tmp15 = tl.where(xmask, tmp13, 0)
    tmp16 = tl.sum(tmp15, 1)[:, None].to(tl.float32)
    tmp17 = tmp1 - tmp10
    tmp18 = tl.full([1, 1], 1024.0, tl.float32)
    tmp19 = (tmp16 / tmp18)
    tmp20 = tl.full([1, 1], 1e-05, tl.float32)
    tmp21 = tmp19 + tmp20
    tmp22 = libdevice.rsqrt(tmp21)
    tmp23 = tmp17 * tmp22
    tmp25 = tmp24.to(tl.float32)
    tmp26 = tmp23 * tmp25
    tmp28 = tmp27.to(tl.float32)
    tmp29 = tmp26 + tmp28
    tmp30 = tmp29.to(tl.float32)
    tmp31 = tmp30.to(tl.float32)
    tmp32 = tl.full([1, 1], 0.5, tl.float32)
    tmp33 = tmp31 * tmp32
    tmp34 = tl.full([1, 1], 0.7071067811865476, tl.float32)
    tmp35 = tmp31 * tmp34
    tmp36 = libdevice.erf(tmp35)
    tmp37 = tl.full([1, 1], 1.0, tl.float32)
    tmp38 = tmp36 + tmp37
    tmp39 = tmp33 * tmp38
    tmp40 = tmp39.to(tl.float32)
    tl.store(out_ptr3 + (r0_1 + 1024*x0), tmp40, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    w_1 = torch.empty((1024,), dtype=torch.bfloat16, device=device).normal_(0.0555, 0.982)
    b_1 = torch.randn((1024,), dtype=torch.bfloat16, device=device)
    return (x_1, w_1, b_1,)


def reference(x_1, w_1, b_1):
    convert_element_type = x_1.to(torch.float32)
    var_mean = aten.var_mean.correction(convert_element_type, [1], correction=0, keepdim=True)
    getitem = var_mean[0]
    getitem_1 = var_mean[1]
    add = aten.add.Tensor(getitem, 1e-05)
    rsqrt = aten.rsqrt.default(add)
    sub = aten.sub.Tensor(convert_element_type, getitem_1)
    mul = aten.mul.Tensor(sub, rsqrt)
    w_1 = w_1.float()
    mul_1 = aten.mul.Tensor(mul, w_1)
    b_1 = b_1.float()
    add_1 = aten.add.Tensor(mul_1, b_1)
    mul_2 = aten.mul.Tensor(add_1, 0.5)
    mul_3 = aten.mul.Tensor(add_1, 0.7071067811865476)
    erf = aten.erf.default(mul_3)
    add_2 = aten.add.Tensor(erf, 1)
    mul_4 = aten.mul.Tensor(mul_2, add_2)
    return mul_4.to(torch.bfloat16)


def kernel(x_1, w_1, b_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr3 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, w_1, b_1, out_ptr3, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr3
