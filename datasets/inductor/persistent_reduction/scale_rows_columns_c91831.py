"""Persistent reduction by Inductor: of scale_rows_columns, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 2e+01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp3 = tl.load(in_ptr2 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 * tmp1
    tmp4 = tmp2 + tmp3
    tmp5 = tmp4 * tmp1
    tmp6 = tmp4 * tmp0
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tl.store(out_ptr0 + (r0_1 + 1024*x0), tmp4, xmask)
    tl.store(out_ptr1 + (r0_1 + 1024*x0), tmp5, xmask)
    tl.store(out_ptr2 + (x0), tmp10, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    arg1_1 = torch.empty((2048, 1), dtype=torch.bfloat16, device=device).normal_(0.0314, 0.994)
    arg2_1 = torch.randn((1024,), dtype=torch.bfloat16, device=device)
    return (arg0_1, arg1_1, arg2_1,)


def reference(arg0_1, arg1_1, arg2_1):
    arg0_1 = arg0_1.float()
    arg1_1 = arg1_1.float()
    mul = aten.mul.Tensor(arg0_1, arg1_1)
    arg2_1 = arg2_1.float()
    add = aten.add.Tensor(mul, arg2_1)
    mul_2 = aten.mul.Tensor(add, arg1_1)
    mul_1 = aten.mul.Tensor(add, arg0_1)
    sum_2 = aten.sum.dim_IntList(mul_1, [1], True)
    return add.to(torch.bfloat16), mul_2.to(torch.bfloat16), sum_2.to(torch.bfloat16)


def kernel(arg0_1, arg1_1, arg2_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((2048, 1), (1, 1), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, arg2_1, out_ptr0, out_ptr1, out_ptr2, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
