"""Mix order reduction by Inductor: of row_maxima_and_column_sums, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "RSPLIT_SIZE": [16, 32, 64, 128],
    "NUM_STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.02, "atol": 9e+01}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, RSPLIT_SIZE : tl.constexpr, NUM_STAGES : tl.constexpr):
    xnumel = 8200
    r0_numel = 760
    R0_BLOCK: tl.constexpr = 1024
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * RSPLIT_SIZE
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    accum0 = tl.full([R0_BLOCK], 0, tl.float32)[None, :]
    split_size = min(RSPLIT_SIZE, xnumel - xoffset)
    for _ in tl.range(0, split_size, XBLOCK, num_stages=NUM_STAGES):
        xmask = xindex < xnumel
        x0 = xindex
        xindex += XBLOCK
        tmp0 = tl.load(in_ptr0 + (r0_1 + 760*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
        tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
        tmp5 = tl_math.abs(tmp0)
        tmp6 = -tmp5
        tmp7 = libdevice.exp(tmp6)
        tl.store(out_ptr0 + (x0), tmp4, xmask)
        tmp8 = tl.sum(tmp7, 0)
        tmp9 = accum0 + tmp8
        accum0 = tmp9
    tl.store(ws_ptr + (tl.program_id(0) + 0 * tl.num_programs(0)) * r0_numel + r0_index, accum0, r0_mask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and params["RSPLIT_SIZE"] % params["XBLOCK"] == 0


def inputs(device="cuda"):
    x_1 = torch.randn((8200, 760), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    amax = aten.amax.default(x_1, [1])
    abs_1 = aten.abs.default(x_1)
    neg = aten.neg.default(abs_1)
    exp = aten.exp.default(neg)
    sum_1 = aten.sum.dim_IntList(exp, [0])
    return amax.to(torch.bfloat16), sum_1.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1, RSPLIT_SIZE=16, NUM_STAGES=3, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8200,), (1,), dtype=torch.bfloat16, device=x_1.device)
    ws_ptr = torch.empty(389880, dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(8200, RSPLIT_SIZE),)
    fused_kernel[grid](x_1, out_ptr0, ws_ptr, 8200, 760, XBLOCK=XBLOCK, RSPLIT_SIZE=RSPLIT_SIZE, NUM_STAGES=NUM_STAGES, num_warps=num_warps, num_stages=num_stages)
    parts = ws_ptr[:1 * grid[0] * 760]
    parts = parts.view(1, grid[0], 760)
    buf2 = parts[0].sum(0).view((760,)).to(torch.bfloat16)
    return out_ptr0, buf2
