"""Persistent reduction by Inductor: of z_loss, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.where(xmask, tmp2, float("-inf"))
    tmp5 = triton_helpers.max2(tmp4, 1)[:, None].to(tl.float32)
    tmp6 = tl_math.abs(tmp5)
    tmp7 = tl.full([1, 1], float("inf"), tl.float32)
    tmp8 = tmp6 == tmp7
    tmp9 = tl.full([1, 1], 0.0, tl.float32)
    tmp10 = tl.where(tmp8, tmp9, tmp5)
    tmp11 = tmp1 - tmp10
    tmp12 = libdevice.exp(tmp11)
    tmp13 = tl.broadcast_to(tmp12, [XBLOCK, R0_BLOCK])
    tmp15 = tl.where(xmask, tmp13, 0)
    tmp16 = tl.sum(tmp15, 1)[:, None].to(tl.float32)
    tmp17 = tl_math.log(tmp16)
    tmp18 = tmp17 + tmp10
    tmp19 = tmp18.to(tl.float32)
    tmp20 = tmp19 * tmp19
    tmp21 = tl.full([1, 1], 0.0001, tl.float32)
    tmp22 = tmp20 * tmp21
    tl.store(out_ptr2 + (x0), tmp22, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
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
    return mul.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
