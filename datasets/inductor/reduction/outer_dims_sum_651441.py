"""Reduction by Inductor: of outer_dims_sum, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 9e+01}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 300
    r0_numel = 5661
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = (r0_index % 333)
        r0_2 = r0_index // 333
        tmp0 = tl.load(in_ptr0 + (r0_1 + 333*x0 + 99900*r0_2), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = libdevice.exp(tmp0)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp3, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((17, 300, 333), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    exp = aten.exp.default(x_1)
    sum_1 = aten.sum.dim_IntList(exp, [0, 2])
    return sum_1.to(torch.float16)


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((300,), (1,), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(300, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 300, 5661, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
