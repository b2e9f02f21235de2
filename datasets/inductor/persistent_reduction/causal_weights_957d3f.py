"""Persistent reduction by Inductor: of causal_weights, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 2e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 1998
    r0_numel = 500
    R0_BLOCK: tl.constexpr = 512
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_2 = r0_index
    x0 = (xindex % 333)
    x3 = xindex
    x1 = xindex // 333
    tmp5 = tl.load(in_ptr0 + (r0_2 + 500*x3), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp0 = (r0_2).to(tl.int64)
    tmp1 = (tmp0).to(tl.int64)
    tmp2 = (x0).to(tl.int64)
    tmp3 = (tmp2).to(tl.int64)
    tmp4 = tmp1 <= tmp3
    tmp6 = tl.full([1, 1], 0.125, tl.float32)
    tmp7 = tmp5 * tmp6
    tmp8 = tl.full([1, 1], -10000.0, tl.float32)
    tmp9 = tl.where(tmp4, tmp7, tmp8)
    tmp10 = tmp9.to(tl.float32)
    tmp11 = tl.broadcast_to(tmp10, [XBLOCK, R0_BLOCK])
    tmp13 = tl.broadcast_to(tmp11, [XBLOCK, R0_BLOCK])
    tmp15 = tl.where(r0_mask & xmask, tmp13, float("-inf"))
    tmp16 = triton_helpers.max2(tmp15, 1)[:, None].to(tl.float32)
    tmp17 = tmp11 - tmp16
    tmp18 = libdevice.exp(tmp17)
    tmp19 = tl.broadcast_to(tmp18, [XBLOCK, R0_BLOCK])
    tmp21 = tl.where(r0_mask & xmask, tmp19, 0)
    tmp22 = tl.sum(tmp21, 1)[:, None].to(tl.float32)
    tmp23 = tmp10 - tmp16
    tmp24 = libdevice.exp(tmp23)
    tmp25 = (tmp24 / tmp22)
    tmp26 = tmp25.to(tl.float32)
    tl.store(out_ptr2 + (r0_2 + 500*x0 + 166528*x1), tmp26, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 512
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((1, 6, 333, 500), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    iota_1 = torch.ops.prims.iota.default(500, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    iota = torch.ops.prims.iota.default(333, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze = aten.unsqueeze.default(iota, 1)
    le = aten.le.Tensor(iota_1, unsqueeze)
    x_1 = x_1.float()
    mul = aten.mul.Tensor(x_1, 0.125)
    scalar_tensor = aten.scalar_tensor.default(-10000.0, dtype=torch.float32, device=x_1.device)
    where = aten.where.self(le, mul, scalar_tensor)
    prepare_softmax_online_default = where.amax(-1, keepdim=True), (where - where.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(where, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    return div.to(torch.float16)


def kernel(x_1, *, XBLOCK=2, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((1, 6, 333, 500), (999168, 166528, 500, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(1998, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, 1998, 500, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
