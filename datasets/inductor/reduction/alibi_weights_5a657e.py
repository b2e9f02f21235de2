"""Reduction by Inductor: of alibi_weights, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "R0_BLOCK": [16, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 2e-07}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 1998
    r0_numel = 500
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x3 = xindex
    x1 = xindex // 333
    x0 = (xindex % 333)
    _tmp9_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp9_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_2 + 500*x3), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp1 = ((-1)*x1).to(tl.float32)
        tmp2 = (tmp1).to(tl.float32)
        tmp3 = libdevice.exp2(tmp2)
        tmp4 = (tl_math.abs(r0_2 + ((-1)*x0))).to(tl.float32)
        tmp5 = (tmp4).to(tl.float32)
        tmp6 = tmp3 * tmp5
        tmp7 = tmp0 - tmp6
        tmp8 = tl.broadcast_to(tmp7, [XBLOCK, R0_BLOCK])

        _tmp9_max_next, _tmp9_sum_next = triton_helpers.online_softmax_combine(
            _tmp9_max, _tmp9_sum, tmp8, False
        )

        _tmp9_max = tl.where(r0_mask & xmask, _tmp9_max_next, _tmp9_max)
        _tmp9_sum = tl.where(r0_mask & xmask, _tmp9_sum_next, _tmp9_sum)

    tmp9, tmp10 = triton_helpers.online_softmax_reduce(
        _tmp9_max, _tmp9_sum, 1, False)
    tmp9 = tmp9[:, None]
    tmp10 = tmp10[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp11 = tl.load(in_ptr0 + (r0_2 + 500*x3), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp12 = ((-1)*x1).to(tl.float32)
        tmp13 = (tmp12).to(tl.float32)
        tmp14 = libdevice.exp2(tmp13)
        tmp15 = (tl_math.abs(r0_2 + ((-1)*x0))).to(tl.float32)
        tmp16 = (tmp15).to(tl.float32)
        tmp17 = tmp14 * tmp16
        tmp18 = tmp11 - tmp17
        tmp19 = tmp18 - tmp9
        tmp20 = libdevice.exp(tmp19)
        tmp21 = (tmp20 / tmp10)
        tl.store(out_ptr2 + (r0_2 + 500*x0 + 166528*x1), tmp21, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((1, 6, 333, 500), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    iota_2 = torch.ops.prims.iota.default(6, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    convert_element_type = iota_2.to(torch.float32)
    neg = aten.neg.default(convert_element_type)
    exp2 = aten.exp2.default(neg)
    unsqueeze_1 = aten.unsqueeze.default(exp2, 1)
    unsqueeze_2 = aten.unsqueeze.default(unsqueeze_1, 2)
    iota = torch.ops.prims.iota.default(333, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze = aten.unsqueeze.default(iota, 1)
    iota_1 = torch.ops.prims.iota.default(500, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    sub = aten.sub.Tensor(unsqueeze, iota_1)
    abs_1 = aten.abs.default(sub)
    mul = aten.mul.Tensor(unsqueeze_2, abs_1)
    sub_1 = aten.sub.Tensor(x_1, mul)
    prepare_softmax_online_default = sub_1.amax(-1, keepdim=True), (sub_1 - sub_1.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(sub_1, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    return div


def kernel(x_1, *, XBLOCK=2, R0_BLOCK=512, num_warps=4, num_stages=1):
    out_ptr2 = torch.empty_strided((1, 6, 333, 500), (999168, 166528, 500, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1998, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, 1998, 500, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
