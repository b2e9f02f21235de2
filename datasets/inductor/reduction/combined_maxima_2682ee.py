"""Reduction by Inductor: of combined_maxima, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.07}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 60
    r0_numel = 5000
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], float("inf"), tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5000*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp3 = triton_helpers.minimum(_tmp2, tmp1)
        _tmp2 = tl.where(r0_mask & xmask, tmp3, _tmp2)
    tmp2 = triton_helpers.min2(_tmp2, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp2, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    b_1 = torch.randn((60, 5000), dtype=torch.bfloat16, device=device)
    return (b_1,)


def reference(b_1):
    amin = aten.amin.default(b_1, [1])
    return amin


def kernel(b_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((60,), (1,), dtype=torch.bfloat16, device=b_1.device)
    grid = (triton.cdiv(60, XBLOCK),)
    fused_kernel[grid](b_1, out_ptr0, 60, 5000, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
