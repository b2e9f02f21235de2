"""Reduction by Inductor: of z_loss, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 8e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 509
    r0_numel = 4003
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 4003*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = triton_helpers.maximum(_tmp3, tmp2)
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
    tmp3 = triton_helpers.max2(_tmp3, 1)[:, None]
    _tmp15 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp5 = tl.load(in_ptr0 + (r0_1 + 4003*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp6 = tmp5.to(tl.float32)
        tmp7 = tl_math.abs(tmp3)
        tmp8 = tl.full([1, 1], float("inf"), tl.float32)
        tmp9 = tmp7 == tmp8
        tmp10 = tl.full([1, 1], 0.0, tl.float32)
        tmp11 = tl.where(tmp9, tmp10, tmp3)
        tmp12 = tmp6 - tmp11
        tmp13 = libdevice.exp(tmp12)
        tmp14 = tl.broadcast_to(tmp13, [XBLOCK, R0_BLOCK])
        tmp16 = _tmp15 + tmp14
        _tmp15 = tl.where(r0_mask & xmask, tmp16, _tmp15)
    tmp15 = tl.sum(_tmp15, 1)[:, None]
    tmp17 = tl_math.log(tmp15)
    tmp18 = tl_math.abs(tmp3)
    tmp19 = tl.full([1, 1], float("inf"), tl.float32)
    tmp20 = tmp18 == tmp19
    tmp21 = tl.full([1, 1], 0.0, tl.float32)
    tmp22 = tl.where(tmp20, tmp21, tmp3)
    tmp23 = tmp17 + tmp22
    tmp24 = tmp23.to(tl.float32)
    tmp25 = tmp24 * tmp24
    tmp26 = tl.full([1, 1], 0.0001, tl.float32)
    tmp27 = tmp25 * tmp26
    tl.store(out_ptr2 + (x0), tmp27, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    convert_element_type = x_1.to(torch.float32)
    amax = aten.amax.default(convert_element_type, [-1], True)
    abs_1 = aten.abs.default(amax)
    eq = aten.eq.Scalar(abs_1, float("inf"))
    scalar_tensor = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=x_1.device)
    where = aten.where.self(eq, scalar_tensor, amax)
    sub = aten.sub.Tensor(convert_element_type, where)
    exp = aten.exp.default(sub)
    sum_1 = aten.sum.dim_IntList(exp, [-1])
    log = aten.log.default(sum_1)
    squeeze = aten.squeeze.dims(where, [-1])
    add = aten.add.Tensor(log, squeeze)
    pow_1 = aten.pow.Tensor_Scalar(add, 2)
    mul = aten.mul.Tensor(pow_1, 0.0001)
    return mul.to(torch.float16)


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=4096, num_warps=16, num_stages=1):
    out_ptr2 = torch.empty_strided((509,), (1,), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(509, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, 509, 4003, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
