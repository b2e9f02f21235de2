"""Reduction by Inductor: of causal_weights, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

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
    x0 = (xindex % 333)
    x3 = xindex
    _tmp11_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp11_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp5 = tl.load(in_ptr0 + (r0_2 + 500*x3), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp0 = (r0_2).to(tl.int64)
        tmp1 = (tmp0).to(tl.int64)
        tmp2 = (x0).to(tl.int64)
        tmp3 = (tmp2).to(tl.int64)
        tmp4 = tmp1 <= tmp3
        tmp6 = tl.full([1, 1], 0.125, tl.float32)
        tmp7 = tmp5 * tmp6
        tmp8 = tl.full([1, 1], -10000.0, tl.float32)
        tmp9 = tl.where(tmp4, tmp7, tmp8)
        tmp10 = tl.broadcast_to(tmp9, [XBLOCK, R0_BLOCK])

        _tmp11_max_next, _tmp11_sum_next = triton_helpers.online_softmax_combine(
            _tmp11_max, _tmp11_sum, tmp10, False
        )

        _tmp11_max = tl.where(r0_mask & xmask, _tmp11_max_next, _tmp11_max)
        _tmp11_sum = tl.where(r0_mask & xmask, _tmp11_sum_next, _tmp11_sum)

    tmp11, tmp12 = triton_helpers.online_softmax_reduce(
        _tmp11_max, _tmp11_sum, 1, False)
    tmp11 = tmp11[:, None]
    tmp12 = tmp12[:, None]
    x1 = xindex // 333
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp18 = tl.load(in_ptr0 + (r0_2 + 500*x3), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp13 = (r0_2).to(tl.int64)
        tmp14 = (tmp13).to(tl.int64)
        tmp15 = (x0).to(tl.int64)
        tmp16 = (tmp15).to(tl.int64)
        tmp17 = tmp14 <= tmp16
        tmp19 = tl.full([1, 1], 0.125, tl.float32)
        tmp20 = tmp18 * tmp19
        tmp21 = tl.full([1, 1], -10000.0, tl.float32)
        tmp22 = tl.where(tmp17, tmp20, tmp21)
        tmp23 = tmp22 - tmp11
        tmp24 = libdevice.exp(tmp23)
        tmp25 = (tmp24 / tmp12)
        tl.store(out_ptr2 + (r0_2 + 500*x0 + 166528*x1), tmp25, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((1, 6, 333, 500), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    iota_1 = torch.ops.prims.iota.default(500, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    iota = torch.ops.prims.iota.default(333, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze = aten.unsqueeze.default(iota, 1)
    le = aten.le.Tensor(iota_1, unsqueeze)
    mul = aten.mul.Tensor(x_1, 0.125)
    scalar_tensor = aten.scalar_tensor.default(-10000.0, dtype=torch.float32, device=x_1.device)
    where = aten.where.self(le, mul, scalar_tensor)
    prepare_softmax_online_default = where.amax(-1, keepdim=True), (where - where.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(where, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    return div


def kernel(x_1, *, XBLOCK=2, R0_BLOCK=512, num_warps=4, num_stages=1):
    out_ptr2 = torch.empty_strided((1, 6, 333, 500), (999168, 166528, 500, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1998, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, 1998, 500, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
