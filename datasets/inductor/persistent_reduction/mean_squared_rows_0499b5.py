"""Persistent reduction by Inductor: of mean_squared_rows, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.04}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp1 = tl.load(in_ptr1 + (r0_1 + 1024*x0), xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp2 = tmp0 - tmp1
    tmp3 = tmp2 * tmp2
    tmp4 = tmp3.to(tl.float32)
    tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
    tmp7 = tl.where(xmask, tmp5, 0)
    tmp8 = tl.sum(tmp7, 1)[:, None].to(tl.float32)
    tmp9 = tl.full([1, 1], 1024.0, tl.float32)
    tmp10 = (tmp8 / tmp9)
    tmp11 = tmp10.to(tl.float32)
    tl.store(out_ptr1 + (x0), tmp11, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    y_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    x_1 = x_1.float()
    y_1 = y_1.float()
    sub = aten.sub.Tensor(x_1, y_1)
    pow_1 = aten.pow.Tensor_Scalar(sub, 2)
    mean = aten.mean.dim(pow_1, [1])
    return mean.to(torch.bfloat16)


def kernel(x_1, y_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr1 = torch.empty_strided((2048,), (1,), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr1, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
