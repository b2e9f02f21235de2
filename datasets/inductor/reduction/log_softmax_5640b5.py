"""Reduction by Inductor: of log_softmax, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.09}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 509
    r0_numel = 4003
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp3_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp3_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 4003*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])

        _tmp3_max_next, _tmp3_sum_next = triton_helpers.online_softmax_combine(
            _tmp3_max, _tmp3_sum, tmp2, False
        )

        _tmp3_max = tl.where(r0_mask & xmask, _tmp3_max_next, _tmp3_max)
        _tmp3_sum = tl.where(r0_mask & xmask, _tmp3_sum_next, _tmp3_sum)

    tmp3, tmp4 = triton_helpers.online_softmax_reduce(
        _tmp3_max, _tmp3_sum, 1, False)
    tmp3 = tmp3[:, None]
    tmp4 = tmp4[:, None]
    _tmp13 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp5 = tl.load(in_ptr0 + (r0_1 + 4003*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp6 = tmp5.to(tl.float32)
        tmp7 = tmp6 - tmp3
        tmp8 = tl_math.log(tmp4)
        tmp9 = tmp7 - tmp8
        tmp10 = tmp9.to(tl.float32)
        tmp11 = tmp10.to(tl.float32)
        tmp12 = tl.broadcast_to(tmp11, [XBLOCK, R0_BLOCK])
        tmp14 = _tmp13 + tmp12
        _tmp13 = tl.where(r0_mask & xmask, tmp14, _tmp13)
        tl.store(out_ptr2 + (r0_1 + 4032*x0), tmp10, r0_mask & xmask)
    tmp13 = tl.sum(_tmp13, 1)[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp15 = tl.load(out_ptr2 + (r0_1 + 4032*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp16 = tmp15.to(tl.float32)
        tmp17 = libdevice.exp(tmp16)
        tmp18 = tmp17 * tmp13
        tmp19 = tmp16 - tmp18
        tmp20 = tmp19.to(tl.float32)
        tl.store(out_ptr4 + (r0_1 + 4032*x0), tmp20, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((509, 4003), dtype=torch.float16, device=device)
    return (arg0_1,)


def reference(arg0_1):
    convert_element_type = arg0_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type.amax(-1, keepdim=True), (convert_element_type - convert_element_type.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    exp_1 = aten.exp.default(sub_1)
    sum_2 = aten.sum.dim_IntList(sub_1, [-1], True)
    mul = aten.mul.Tensor(exp_1, sum_2)
    sub_2 = aten.sub.Tensor(sub_1, mul)
    return sub_1.to(torch.float16), sub_2.to(torch.float16)


def kernel(arg0_1, *, XBLOCK=1, R0_BLOCK=4096, num_warps=16, num_stages=1):
    out_ptr2 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float16, device=arg0_1.device)
    out_ptr4 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float16, device=arg0_1.device)
    grid = (triton.cdiv(509, XBLOCK),)
    fused_kernel[grid](arg0_1, out_ptr2, out_ptr4, 509, 4003, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2, out_ptr4
