"""Reduction by Inductor: of outer_dims_sum, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 128
    r0_numel = 16384
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    block_ptr0 = tl.make_block_ptr(in_ptr0, shape=[128, 64, 256], strides=[256, 32768, 1], block_shape=[XBLOCK, (255 + R0_BLOCK) // 256, ((256) * ((256) <= (R0_BLOCK)) + (R0_BLOCK) * ((R0_BLOCK) < (256)))], order=[2, 0, 1], offsets=[xoffset, 0, 0])
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = (r0_index % 256)
        r0_2 = r0_index // 256
        tmp0 = tl.reshape(tl.load(block_ptr0, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first'), [XBLOCK, R0_BLOCK])
        tmp1 = libdevice.exp(tmp0)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
        block_ptr0 = tl.advance(block_ptr0, [0, R0_BLOCK // 256, (R0_BLOCK % 256)])
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tl.store(tl.make_block_ptr(out_ptr0, shape=[128], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp3, [XBLOCK, 1]), [XBLOCK]).to(tl.float32), boundary_check=[0])


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["R0_BLOCK"] % 256) == 0


def inputs(device="cuda"):
    x_1 = torch.randn((64, 128, 256), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    exp = aten.exp.default(x_1)
    sum_1 = aten.sum.dim_IntList(exp, [0, 2])
    return sum_1


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((128,), (1,), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(128, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 128, 16384, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
