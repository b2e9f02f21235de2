"""Persistent reduction by Inductor: of p_norms, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 2e+01}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, out_ptr2, out_ptr3, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp1 = tl_math.abs(tmp0)
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.where(xmask, tmp2, 0)
    tmp5 = tl.sum(tmp4, 1)[:, None].to(tl.float32)
    tmp6 = tmp0 * tmp0
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tmp12 = tl.where(xmask, tmp2, float("-inf"))
    tmp13 = triton_helpers.max2(tmp12, 1)[:, None].to(tl.float32)
    tmp14 = tl.sqrt_rn(tmp10)
    tl.store(out_ptr3 + (x0), tmp14, xmask)
    tl.store(out_ptr0 + (x0), tmp5, xmask)
    tl.store(out_ptr2 + (x0), tmp13, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
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
    return sum_1.to(torch.bfloat16), amax.to(torch.bfloat16), sqrt.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    out_ptr2 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    out_ptr3 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, out_ptr2, out_ptr3, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr2, out_ptr3
