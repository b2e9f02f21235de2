"""Reduction by Inductor: of scale_rows_columns, float16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 2e+01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 700
    r0_numel = 2500
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    _tmp8 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 2500*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp3 = tl.load(in_ptr2 + (r0_1), r0_mask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp2 = tmp0 * tmp1
        tmp4 = tmp2 + tmp3
        tmp5 = tmp4 * tmp1
        tmp6 = tmp4 * tmp0
        tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
        tmp9 = _tmp8 + tmp7
        _tmp8 = tl.where(r0_mask & xmask, tmp9, _tmp8)
        tl.store(out_ptr0 + (r0_1 + 2560*x0), tmp4, r0_mask & xmask)
        tl.store(out_ptr1 + (r0_1 + 2560*x0), tmp5, r0_mask & xmask)
    tmp8 = tl.sum(_tmp8, 1)[:, None]
    tl.store(out_ptr2 + (x0), tmp8, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((700, 2500), dtype=torch.float16, device=device)
    arg1_1 = torch.empty((700, 1), dtype=torch.float16, device=device).normal_(0.03, 1.05)
    arg2_1 = torch.empty((2500,), dtype=torch.float16, device=device).normal_(0.0569, 1.03)
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
    return add.to(torch.float16), mul_2.to(torch.float16), sum_2.to(torch.float16)


def kernel(arg0_1, arg1_1, arg2_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((700, 2500), (2560, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((700, 2500), (2560, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((700, 1), (1, 1), dtype=torch.float16, device=arg0_1.device)
    grid = (triton.cdiv(700, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, arg2_1, out_ptr0, out_ptr1, out_ptr2, 700, 2500, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
