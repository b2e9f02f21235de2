"""Reduction by Inductor: of kl_divergence, float16."""

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
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
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
    _tmp3_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp3_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    _tmp8_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp8_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp5 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])

        _tmp3_max_next, _tmp3_sum_next = triton_helpers.online_softmax_combine(
            _tmp3_max, _tmp3_sum, tmp2, False
        )

        _tmp3_max = tl.where(r0_mask & xmask, _tmp3_max_next, _tmp3_max)
        _tmp3_sum = tl.where(r0_mask & xmask, _tmp3_sum_next, _tmp3_sum)
        tmp6 = tmp5.to(tl.float32)
        tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])

        _tmp8_max_next, _tmp8_sum_next = triton_helpers.online_softmax_combine(
            _tmp8_max, _tmp8_sum, tmp7, False
        )

        _tmp8_max = tl.where(r0_mask & xmask, _tmp8_max_next, _tmp8_max)
        _tmp8_sum = tl.where(r0_mask & xmask, _tmp8_sum_next, _tmp8_sum)

    tmp3, tmp4 = triton_helpers.online_softmax_reduce(
        _tmp3_max, _tmp3_sum, 1, False)
    tmp3 = tmp3[:, None]
    tmp4 = tmp4[:, None]

    tmp8, tmp9 = triton_helpers.online_softmax_reduce(
        _tmp8_max, _tmp8_sum, 1, False)
    tmp8 = tmp8[:, None]
    tmp9 = tmp9[:, None]
    _tmp26 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp10 = tl.load(in_ptr0 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp17 = tl.load(in_ptr1 + (r0_1 + 5001*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp11 = tmp10.to(tl.float32)
        tmp12 = tmp11 - tmp3
        tmp13 = tl_math.log(tmp4)
        tmp14 = tmp12 - tmp13
        tmp15 = tmp14.to(tl.float32)
        tmp16 = libdevice.exp(tmp15)
        tmp18 = tmp17.to(tl.float32)
        tmp19 = tmp18 - tmp8
        tmp20 = tl_math.log(tmp9)
        tmp21 = tmp19 - tmp20
        tmp22 = tmp21.to(tl.float32)
        tmp23 = tmp15 - tmp22
        tmp24 = tmp16 * tmp23
        tmp25 = tl.broadcast_to(tmp24, [XBLOCK, R0_BLOCK])
        tmp27 = _tmp26 + tmp25
        _tmp26 = tl.where(r0_mask & xmask, tmp27, _tmp26)
    tmp26 = tl.sum(_tmp26, 1)[:, None]
    tl.store(out_ptr4 + (x0), tmp26, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    y_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    convert_element_type = x_1.to(torch.float32)
    prepare_softmax_online_default_1 = convert_element_type.amax(-1, keepdim=True), (convert_element_type - convert_element_type.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem_2 = prepare_softmax_online_default_1[0]
    getitem_3 = prepare_softmax_online_default_1[1]
    sub_tensor_1 = aten.sub.Tensor(convert_element_type, getitem_2)
    log = aten.log.default(getitem_3)
    sub_1 = aten.sub.Tensor(sub_tensor_1, log)
    exp_2 = aten.exp.default(sub_1)
    convert_element_type_2 = y_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type_2.amax(-1, keepdim=True), (convert_element_type_2 - convert_element_type_2.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type_2, getitem)
    log_1 = aten.log.default(getitem_1)
    sub_3 = aten.sub.Tensor(sub_tensor, log_1)
    sub_4 = aten.sub.Tensor(sub_1, sub_3)
    mul = aten.mul.Tensor(exp_2, sub_4)
    sum_3 = aten.sum.dim_IntList(mul, [-1])
    return sum_3.to(torch.float16)


def kernel(x_1, y_1, *, XBLOCK=1, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((333,), (1,), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(333, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr4, 333, 5001, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4
