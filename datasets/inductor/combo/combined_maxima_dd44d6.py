"""Combo by Inductor: of combined_maxima, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0003}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(2048, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(512, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 2048
        r0_numel = 1024
        R0_BLOCK_0: tl.constexpr = 1024
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
        tmp0 = tl.load(in_ptr0 + (r0_1 + 1024*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK_0])
        tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
        tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
        tl.store(out_ptr0 + (x0), tmp4, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 512
        r0_numel = 640
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
        tmp5 = tl.load(in_ptr1 + (r0_3 + 640*x2), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp6 = tl.broadcast_to(tmp5, [XBLOCK, R0_BLOCK_1])
        tmp8 = tl.where(r0_mask & xmask, tmp6, float("inf"))
        tmp9 = triton_helpers.min2(tmp8, 1)[:, None].to(tl.float32)
        tl.store(out_ptr1 + (x2), tmp9, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    b_1 = torch.randn((512, 640), dtype=torch.float32, device=device)
    return (a_1, b_1,)


def reference(a_1, b_1):
    amax = aten.amax.default(a_1, [1])
    amin = aten.amin.default(b_1, [1])
    return amax, amin


def kernel(a_1, b_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((2048,), (1,), dtype=torch.float32, device=a_1.device)
    out_ptr1 = torch.empty_strided((512,), (1,), dtype=torch.float32, device=a_1.device)
    grid = (triton.cdiv(2048, XBLOCK) + triton.cdiv(512, XBLOCK),)
    fused_kernel[grid](a_1, b_1, out_ptr0, out_ptr1, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
