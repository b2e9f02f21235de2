"""Combo by Inductor: of combined_row_sums, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, out_ptr2, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(1024, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(512, XBLOCK)
    num_xblocks_2 = num_xblocks_1 + tl.cdiv(300, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 1024
        r0_numel = 512
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
        tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK_0])
        tmp3 = tl.where(r0_mask & xmask, tmp1, 0)
        tmp4 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
        tl.store(out_ptr0 + (x0), tmp4, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 700
        R0_BLOCK_1: tl.constexpr = 1024
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
        tmp5 = tl.load(in_ptr1 + (r0_3 + 700*x2), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp6 = tl_math.abs(tmp5)
        tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK_1])
        tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
        tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
        tl.store(out_ptr1 + (x2), tmp10, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 300
        r0_numel = 999
        R0_BLOCK_2: tl.constexpr = 1024
        rnumel = r0_numel
        RBLOCK: tl.constexpr = R0_BLOCK_2
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
        xmask = xindex < xnumel
        r0_index = tl.arange(0, R0_BLOCK_2)[None, :]
        r0_offset = 0
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_5 = r0_index
        x4 = xindex
        tmp11 = tl.load(in_ptr2 + (r0_5 + 999*x4), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp12 = tmp11 * tmp11
        tmp13 = tl.broadcast_to(tmp12, [XBLOCK, R0_BLOCK_2])
        tmp15 = tl.where(r0_mask & xmask, tmp13, 0)
        tmp16 = tl.sum(tmp15, 1)[:, None].to(tl.float32)
        tl.store(out_ptr2 + (x4), tmp16, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((1024, 512), dtype=torch.float32, device=device)
    b_1 = torch.randn((512, 700), dtype=torch.float32, device=device)
    c_1 = torch.randn((300, 999), dtype=torch.float32, device=device)
    return (a_1, b_1, c_1,)


def reference(a_1, b_1, c_1):
    sum_1 = aten.sum.dim_IntList(a_1, [1])
    abs_1 = aten.abs.default(b_1)
    sum_2 = aten.sum.dim_IntList(abs_1, [1])
    mul = aten.mul.Tensor(c_1, c_1)
    sum_3 = aten.sum.dim_IntList(mul, [1])
    return sum_1, sum_2, sum_3


def kernel(a_1, b_1, c_1, *, XBLOCK=1, num_warps=8, num_stages=1):
    out_ptr0 = torch.empty_strided((1024,), (1,), dtype=torch.float32, device=a_1.device)
    out_ptr1 = torch.empty_strided((512,), (1,), dtype=torch.float32, device=a_1.device)
    out_ptr2 = torch.empty_strided((300,), (1,), dtype=torch.float32, device=a_1.device)
    grid = (triton.cdiv(1024, XBLOCK) + triton.cdiv(512, XBLOCK) + triton.cdiv(300, XBLOCK),)
    fused_kernel[grid](a_1, b_1, c_1, out_ptr0, out_ptr1, out_ptr2, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
