"""Persistent reduction by Inductor: of combined_maxima, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 3000
    r0_numel = 77
    R0_BLOCK: tl.constexpr = 128
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 77*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
    tl.store(out_ptr0 + (x0), tmp4, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 128
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((3000, 77), dtype=torch.bfloat16, device=device)
    return (a_1,)


def reference(a_1):
    amax = aten.amax.default(a_1, [1])
    return amax


def kernel(a_1, *, XBLOCK=1, num_warps=2, num_stages=1):
    out_ptr0 = torch.empty_strided((3000,), (1,), dtype=torch.bfloat16, device=a_1.device)
    grid = (triton.cdiv(3000, XBLOCK),)
    fused_kernel[grid](a_1, out_ptr0, 3000, 77, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
