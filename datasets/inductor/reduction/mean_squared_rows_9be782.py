"""Reduction by Inductor: of mean_squared_rows, float16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr1, out_ptr2, out_ptr3, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 333
    r0_numel = 5001
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp6 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp2 = tmp0 - tmp1
        tmp3 = tmp2 * tmp2
        tmp4 = tmp3.to(tl.float32)
        tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
        tmp7 = _tmp6 + tmp5
        _tmp6 = tl.where(r0_mask & xmask, tmp7, _tmp6)
    tmp6 = tl.sum(_tmp6, 1)[:, None]
    tmp8 = tl.full([1, 1], 5001.0, tl.float32)
    tmp9 = (tmp6 / tmp8)
    tmp10 = tmp9.to(tl.float32)
    tl.store(out_ptr1 + (x0), tmp10, xmask)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp13 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp14 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp11 = tl.full([1, 1], 0.0001999600079984003, tl.float32)
        tmp12 = tmp10 * tmp11
        tmp15 = tmp13 - tmp14
        tmp16 = tl.full([1, 1], 2.0, tl.float32)
        tmp17 = tmp15 * tmp16
        tmp18 = tmp12 * tmp17
        tmp19 = -tmp18
        tl.store(out_ptr2 + (r0_1 + 5056*x0), tmp18, r0_mask & xmask)
        tl.store(out_ptr3 + (r0_1 + 5056*x0), tmp19, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    arg1_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    return (arg0_1, arg1_1,)


def reference(arg0_1, arg1_1):
    arg0_1 = arg0_1.float()
    arg1_1 = arg1_1.float()
    sub = aten.sub.Tensor(arg0_1, arg1_1)
    pow_1 = aten.pow.Tensor_Scalar(sub, 2)
    mean = aten.mean.dim(pow_1, [1])
    unsqueeze = aten.unsqueeze.default(mean, 1)
    expand = aten.expand.default(unsqueeze, [333, 5001])
    div = aten.div.Scalar(expand, 5001)
    pow_2 = aten.pow.Tensor_Scalar(sub, 1.0)
    mul = aten.mul.Scalar(pow_2, 2.0)
    mul_1 = aten.mul.Tensor(div, mul)
    neg = aten.neg.default(mul_1)
    return mean.to(torch.float16), mul_1.to(torch.float16), neg.to(torch.float16)


def kernel(arg0_1, arg1_1, *, XBLOCK=1, R0_BLOCK=8192, num_warps=16, num_stages=1):
    out_ptr1 = torch.empty_strided((333,), (1,), dtype=torch.float16, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr3 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=arg0_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr1, out_ptr2, out_ptr3, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1, out_ptr2, out_ptr3
