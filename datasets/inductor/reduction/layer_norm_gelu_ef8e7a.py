"""Reduction by Inductor: of layer_norm_gelu, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.005}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr3, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 384
    r0_numel = 5120
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp3_mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp3_m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp3_weight = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5120*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp3_mean_next, tmp3_m2_next, tmp3_weight_next = triton_helpers.welford_reduce(
            tmp2, tmp3_mean, tmp3_m2, tmp3_weight, roffset == 0
        )
        tmp3_mean = tl.where(r0_mask & xmask, tmp3_mean_next, tmp3_mean)
        tmp3_m2 = tl.where(r0_mask & xmask, tmp3_m2_next, tmp3_m2)
        tmp3_weight = tl.where(r0_mask & xmask, tmp3_weight_next, tmp3_weight)
    tmp4, tmp5, tmp6 = triton_helpers.welford(tmp3_mean, tmp3_m2, tmp3_weight, 1)
    tmp3 = tmp4[:, None]
    tmp7 = tmp5[:, None]
    tmp8 = tmp6[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp9 = tl.load(in_ptr0 + (r0_1 + 5120*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp18 = tl.load(in_ptr1 + (r0_1), r0_mask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp21 = tl.load(in_ptr2 + (r0_1), r0_mask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp10 = tmp9.to(tl.float32)
        tmp11 = tmp10 - tmp3
        tmp12 = tl.full([1, 1], 5120.0, tl.float32)
        tmp13 = (tmp7 / tmp12)
        tmp14 = tl.full([1, 1], 1e-05, tl.float32)
        tmp15 = tmp13 + tmp14
        tmp16 = libdevice.rsqrt(tmp15)
        tmp17 = tmp11 * tmp16
        tmp19 = tmp18.to(tl.float32)
        tmp20 = tmp17 * tmp19
        tmp22 = tmp21.to(tl.float32)
        tmp23 = tmp20 + tmp22
        tmp24 = tmp23.to(tl.float32)
        tmp25 = tmp24.to(tl.float32)
        tmp26 = tl.full([1, 1], 0.5, tl.float32)
        tmp27 = tmp25 * tmp26
        tmp28 = tl.full([1, 1], 0.7071067811865476, tl.float32)
        tmp29 = tmp25 * tmp28
        tmp30 = libdevice.erf(tmp29)
        tmp31 = tl.full([1, 1], 1.0, tl.float32)
        tmp32 = tmp30 + tmp31
        tmp33 = tmp27 * tmp32
        tmp34 = tmp33.to(tl.float32)
        tl.store(out_ptr3 + (r0_1 + 5120*x0), tmp34, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((384, 5120), dtype=torch.float16, device=device)
    w_1 = torch.randn((5120,), dtype=torch.float16, device=device)
    b_1 = torch.empty((5120,), dtype=torch.float16, device=device).normal_(-0.0297, 0.998)
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
    return mul_4.to(torch.float16)


def kernel(x_1, w_1, b_1, *, XBLOCK=1, R0_BLOCK=8192, num_warps=16, num_stages=1):
    out_ptr3 = torch.empty_strided((384, 5120), (5120, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(384, XBLOCK),)
    fused_kernel[grid](x_1, w_1, b_1, out_ptr3, 384, 5120, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr3
