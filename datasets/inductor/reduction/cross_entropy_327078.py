"""Reduction by Inductor: of cross_entropy, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.02, "atol": 9e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, in_ptr5, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 1024
    r0_numel = 4096
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last')
    tmp4 = tl.load(in_ptr2 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    _tmp10 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 4096*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp2 = tl.full([1, 1], -100, tl.int64)
        tmp3 = tmp1 != tmp2
        tmp5 = tl.full([1, 1], 0.0, tl.float32)
        tmp6 = tl.where(tmp3, tmp4, tmp5)
        tmp7 = tmp0 * tmp6
        tmp8 = tmp7.to(tl.float32)
        tmp9 = tl.broadcast_to(tmp8, [XBLOCK, R0_BLOCK])
        tmp11 = _tmp10 + tmp9
        _tmp10 = tl.where(r0_mask & xmask, tmp11, _tmp10)
    tmp10 = tl.sum(_tmp10, 1)[:, None]
    tmp21 = tl.load(in_ptr4 + (x0), xmask, eviction_policy='evict_last')
    tmp23 = tl.load(in_ptr5 + (x0), xmask, eviction_policy='evict_last')
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp12 = tl.load(in_ptr0 + (r0_1 + 4096*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp19 = tl.load(in_ptr3 + (r0_1 + 4096*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp13 = tl.full([1, 1], -100, tl.int64)
        tmp14 = tmp1 != tmp13
        tmp15 = tl.full([1, 1], 0.0, tl.float32)
        tmp16 = tl.where(tmp14, tmp4, tmp15)
        tmp17 = tmp12 * tmp16
        tmp18 = tmp17.to(tl.float32)
        tmp20 = tmp19.to(tl.float32)
        tmp22 = tmp20 - tmp21
        tmp24 = tl_math.log(tmp23)
        tmp25 = tmp22 - tmp24
        tmp26 = tmp25.to(tl.float32)
        tmp27 = tmp26.to(tl.float32)
        tmp28 = libdevice.exp(tmp27)
        tmp29 = tmp28 * tmp10
        tmp30 = tmp18 - tmp29
        tmp31 = tmp30.to(tl.float32)
        tl.store(out_ptr1 + (r0_1 + 4096*x0), tmp31, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    scatter = torch.empty((1024, 4096), dtype=torch.bfloat16, device=device).uniform_(-1, 0)
    arg1_1 = torch.randint(2, 4092, (1024,), dtype=torch.int64, device=device)
    where_1 = torch.empty((1024,), dtype=torch.bfloat16, device=device).uniform_(5.875, 12.19)
    arg0_1 = torch.randn((1024, 4096), dtype=torch.bfloat16, device=device)
    getitem = torch.empty((1024,), dtype=torch.float32, device=device).uniform_(2.906, 4.812).as_strided((1024, 1), (1, 1024))
    getitem_1 = torch.empty((1024,), dtype=torch.float32, device=device).uniform_(57.22, 354).as_strided((1024, 1), (1, 1024))
    return (scatter, arg1_1, where_1, arg0_1, getitem, getitem_1,)


def reference(scatter, arg1_1, where_1, arg0_1, getitem, getitem_1):
    convert_element_type = arg0_1.to(torch.float32)
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    exp_1 = aten.exp.default(sub_1)
    unsqueeze_1 = aten.unsqueeze.default(arg1_1, 1)
    ne_3 = aten.ne.Scalar(unsqueeze_1, -100)
    unsqueeze_2 = aten.unsqueeze.default(where_1, 1)
    scalar_tensor_3 = aten.scalar_tensor.default(0, dtype=torch.float32, device=scatter.device)
    unsqueeze_2 = unsqueeze_2.float()
    where_3 = aten.where.self(ne_3, unsqueeze_2, scalar_tensor_3)
    scatter = scatter.float()
    mul = aten.mul.Tensor(scatter, where_3)
    sum_2 = aten.sum.dim_IntList(mul, [1], True)
    mul_1 = aten.mul.Tensor(exp_1, sum_2)
    sub_2 = aten.sub.Tensor(mul, mul_1)
    return sub_2.to(torch.bfloat16)


def kernel(scatter, arg1_1, where_1, arg0_1, getitem, getitem_1, *, XBLOCK=1, R0_BLOCK=4096, num_warps=16, num_stages=1):
    out_ptr1 = torch.empty_strided((1024, 4096), (4096, 1), dtype=torch.bfloat16, device=scatter.device)
    grid = (triton.cdiv(1024, XBLOCK),)
    fused_kernel[grid](scatter, arg1_1, where_1, arg0_1, getitem, getitem_1, out_ptr1, 1024, 4096, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
