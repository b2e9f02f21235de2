"""Reduction by Inductor: of p_norms, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 3e+01}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, out_ptr2, out_ptr3, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
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
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    _tmp7 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    _tmp9 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 4003*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tl_math.abs(tmp0)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
        tmp5 = tmp0 * tmp0
        tmp6 = tl.broadcast_to(tmp5, [XBLOCK, R0_BLOCK])
        tmp8 = _tmp7 + tmp6
        _tmp7 = tl.where(r0_mask & xmask, tmp8, _tmp7)
        tmp10 = triton_helpers.maximum(_tmp9, tmp2)
        _tmp9 = tl.where(r0_mask & xmask, tmp10, _tmp9)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tmp7 = tl.sum(_tmp7, 1)[:, None]
    tmp9 = triton_helpers.max2(_tmp9, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp3, xmask)
    tl.store(out_ptr2 + (x0), tmp9, xmask)
    tmp11 = tl.sqrt_rn(tmp7)
    tl.store(out_ptr3 + (x0), tmp11, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    abs_1 = aten.abs.default(x_1)
    sum_1 = aten.sum.dim_IntList(abs_1, [1])
    mul = aten.mul.Tensor(x_1, x_1)
    sum_2 = aten.sum.dim_IntList(mul, [1])
    sqrt = aten.sqrt.default(sum_2)
    abs_2 = aten.abs.default(x_1)
    amax = aten.amax.default(abs_2, [1])
    return sum_1.to(torch.float16), amax.to(torch.float16), sqrt.to(torch.float16)


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((509,), (1,), dtype=torch.float16, device=x_1.device)
    out_ptr2 = torch.empty_strided((509,), (1,), dtype=torch.float16, device=x_1.device)
    out_ptr3 = torch.empty_strided((509,), (1,), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(509, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, out_ptr2, out_ptr3, 509, 4003, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr2, out_ptr3
