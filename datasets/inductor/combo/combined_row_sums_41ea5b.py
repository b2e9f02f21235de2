"""Combo by Inductor: of combined_row_sums, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 1}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(700, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(90, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 700
        r0_numel = 300
        R0_BLOCK_0: tl.constexpr = 512
        rnumel = r0_numel
        RBLOCK: tl.constexpr = R0_BLOCK_0
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
        xmask = xindex < xnumel
        r0_index = tl.arange(0, R0_BLOCK_0)[None, :]
        r0_offset = 0
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (r0_1 + 300*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK_0])
        tmp3 = tl.where(r0_mask & xmask, tmp1, 0)
        tmp4 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
        tl.store(out_ptr0 + (x0), tmp4, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 90
        r0_numel = 64
        R0_BLOCK_1: tl.constexpr = 64
        rnumel = r0_numel
        RBLOCK: tl.constexpr = R0_BLOCK_1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
        xmask = xindex < xnumel
        r0_index = tl.arange(0, R0_BLOCK_1)[None, :]
        r0_offset = 0
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_3 = r0_index
        x2 = xindex
        tmp5 = tl.load(in_ptr1 + (r0_3 + 64*x2), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp6 = tl_math.abs(tmp5)
        tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK_1])
        tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
        tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
        tl.store(out_ptr1 + (x2), tmp10, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"] * 512
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((700, 300), dtype=torch.bfloat16, device=device)
    b_1 = torch.empty((90, 64), dtype=torch.bfloat16, device=device).normal_(-0.0203, 1.01)
    return (a_1, b_1,)


def reference(a_1, b_1):
    sum_1 = aten.sum.dim_IntList(a_1, [1])
    abs_1 = aten.abs.default(b_1)
    sum_2 = aten.sum.dim_IntList(abs_1, [1])
    return sum_1, sum_2


def kernel(a_1, b_1, *, XBLOCK=2, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((700,), (1,), dtype=torch.bfloat16, device=a_1.device)
    out_ptr1 = torch.empty_strided((90,), (1,), dtype=torch.bfloat16, device=a_1.device)
    grid = (triton.cdiv(700, XBLOCK) + triton.cdiv(90, XBLOCK),)
    fused_kernel[grid](a_1, b_1, out_ptr0, out_ptr1, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
