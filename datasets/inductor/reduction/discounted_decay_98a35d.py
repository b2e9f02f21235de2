"""Reduction by Inductor: of discounted_decay, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.02, "atol": 8e-06}


@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0

@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 256
    r0_numel = 2048
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp12 = tl.full([XBLOCK, 1], float('nan'), tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 2048*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp19 = tl.load(in_ptr1 + (r0_1 + 2048*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.full([1, 1], 0.0, tl.float32)
        tmp3 = triton_helpers.minimum(tmp2, tmp1)
        tmp4 = tl_math.abs(tmp1)
        tmp5 = -tmp4
        tmp6 = libdevice.exp(tmp5)
        tmp7 = libdevice.log1p(tmp6)
        tmp8 = tmp3 - tmp7
        tmp9 = tmp8.to(tl.float32)
        tmp10 = tmp9.to(tl.float32)
        tmp11 = tl.broadcast_to(tmp10, [XBLOCK, R0_BLOCK])
        tmp13, = tl.associative_scan((tmp11,), 1, _triton_helper_fn_add0)
        tmp14 = triton_helpers.select_one((tmp13), rbase == (RBLOCK - 1), dim=-1, keep_dims=True)
        tmp15 = tmp12 + tmp14
        tmp16 = tmp12 + tmp13
        tmp17 = tl.where(roffset > 0, tmp16, tmp13)
        tmp12 = tl.where(roffset > 0, tmp15, tmp14)
        tmp18 = libdevice.exp(tmp17)
        tmp20 = tmp18 * tmp19
        tl.store(out_ptr1 + (r0_1 + 2048*x0), tmp20, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    decay_1 = torch.randn((256, 2048), dtype=torch.bfloat16, device=device)
    x_1 = torch.randn((256, 2048), dtype=torch.bfloat16, device=device)
    return (decay_1, x_1,)


def reference(decay_1, x_1):
    convert_element_type = decay_1.to(torch.float32)
    abs_1 = aten.abs.default(convert_element_type)
    neg = aten.neg.default(abs_1)
    exp = aten.exp.default(neg)
    full = aten.full.default([], 0, dtype=torch.float32, device=decay_1.device)
    minimum = aten.minimum.default(full, convert_element_type)
    log1p = aten.log1p.default(exp)
    sub = aten.sub.Tensor(minimum, log1p)
    cumsum = aten.cumsum.default(sub, 1)
    exp_1 = aten.exp.default(cumsum)
    x_1 = x_1.float()
    mul = aten.mul.Tensor(exp_1, x_1)
    return mul.to(torch.bfloat16)


def kernel(decay_1, x_1, *, XBLOCK=2, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr1 = torch.empty_strided((256, 2048), (2048, 1), dtype=torch.bfloat16, device=decay_1.device)
    grid = (triton.cdiv(256, XBLOCK),)
    fused_kernel[grid](decay_1, x_1, out_ptr1, 256, 2048, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
