"""Reduction by Inductor: of masked_weights, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "R0_BLOCK": [16, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3e-07}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 6144
    r0_numel = 384
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = (xindex % 384)
    x2 = xindex // 3072
    x4 = xindex
    _tmp6_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp6_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_3 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_3 + 384*x0 + 147456*x2), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.int1)
        tmp2 = tl.load(in_ptr1 + (r0_3 + 384*x4), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp1 = tmp0 == 0
        tmp3 = tl.full([1, 1], -10000.0, tl.float32)
        tmp4 = tl.where(tmp1, tmp3, tmp2)
        tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])

        _tmp6_max_next, _tmp6_sum_next = triton_helpers.online_softmax_combine(
            _tmp6_max, _tmp6_sum, tmp5, False
        )

        _tmp6_max = tl.where(r0_mask & xmask, _tmp6_max_next, _tmp6_max)
        _tmp6_sum = tl.where(r0_mask & xmask, _tmp6_sum_next, _tmp6_sum)

    tmp6, tmp7 = triton_helpers.online_softmax_reduce(
        _tmp6_max, _tmp6_sum, 1, False)
    tmp6 = tmp6[:, None]
    tmp7 = tmp7[:, None]
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_3 = r0_index
        tmp8 = tl.load(in_ptr0 + (r0_3 + 384*x0 + 147456*x2), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.int1)
        tmp10 = tl.load(in_ptr1 + (r0_3 + 384*x4), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp9 = tmp8 == 0
        tmp11 = tl.full([1, 1], -10000.0, tl.float32)
        tmp12 = tl.where(tmp9, tmp11, tmp10)
        tmp13 = tmp12 - tmp6
        tmp14 = libdevice.exp(tmp13)
        tmp15 = (tmp14 / tmp7)
        tl.store(out_ptr2 + (r0_3 + 384*x4), tmp15, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    keep_1 = torch.rand((2, 1, 384, 384), device=device) < 0.9
    x_1 = torch.randn((2, 8, 384, 384), dtype=torch.float32, device=device)
    return (keep_1, x_1,)


def reference(keep_1, x_1):
    bitwise_not = aten.bitwise_not.default(keep_1)
    scalar_tensor = aten.scalar_tensor.default(-10000.0, dtype=torch.float32, device=keep_1.device)
    where = aten.where.self(bitwise_not, scalar_tensor, x_1)
    prepare_softmax_online_default = where.amax(-1, keepdim=True), (where - where.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(where, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    return div


def kernel(keep_1, x_1, *, XBLOCK=2, R0_BLOCK=512, num_warps=4, num_stages=1):
    out_ptr2 = torch.empty_strided((2, 8, 384, 384), (1179648, 147456, 384, 1), dtype=torch.float32, device=keep_1.device)
    grid = (triton.cdiv(6144, XBLOCK),)
    fused_kernel[grid](keep_1, x_1, out_ptr2, 6144, 384, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
