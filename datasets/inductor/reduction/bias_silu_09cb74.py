"""Reduction by Inductor: of bias_silu, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "R0_BLOCK": [16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 3000
    r0_numel = 515
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last')
    _tmp15 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (x0 + 3000*r0_1), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp2 = tmp0 + tmp1
        tmp3 = -tmp2
        tmp4 = libdevice.exp(tmp3)
        tmp5 = tl.full([1, 1], 1.0, tl.float32)
        tmp6 = tmp4 + tmp5
        tmp7 = (tmp2 / tmp6)
        tmp8 = tl.sigmoid(tmp2)
        tmp9 = tmp7 * tmp8
        tmp10 = tmp5 - tmp8
        tmp11 = tmp2 * tmp10
        tmp12 = tmp11 + tmp5
        tmp13 = tmp9 * tmp12
        tmp14 = tl.broadcast_to(tmp13, [XBLOCK, R0_BLOCK])
        tmp16 = _tmp15 + tmp14
        _tmp15 = tl.where(r0_mask & xmask, tmp16, _tmp15)
        tl.store(out_ptr0 + (x0 + 3008*r0_1), tmp7, r0_mask & xmask)
        tl.store(out_ptr1 + (x0 + 3008*r0_1), tmp13, r0_mask & xmask)
    tmp15 = tl.sum(_tmp15, 1)[:, None]
    tl.store(out_ptr2 + (x0), tmp15, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((515, 3000), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((3000,), dtype=torch.float32, device=device)
    return (arg0_1, arg1_1,)


def reference(arg0_1, arg1_1):
    add = aten.add.Tensor(arg0_1, arg1_1)
    neg = aten.neg.default(add)
    exp = aten.exp.default(neg)
    add_1 = aten.add.Tensor(exp, 1)
    div = aten.div.Tensor(add, add_1)
    sigmoid = aten.sigmoid.default(add)
    mul = aten.mul.Tensor(div, sigmoid)
    sub = aten.sub.Tensor(1, sigmoid)
    mul_1 = aten.mul.Tensor(add, sub)
    add_2 = aten.add.Tensor(mul_1, 1)
    mul_2 = aten.mul.Tensor(mul, add_2)
    sum_1 = aten.sum.dim_IntList(mul_2, [0], True)
    return div, mul_2, sum_1


def kernel(arg0_1, arg1_1, *, XBLOCK=16, R0_BLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((515, 3000), (3008, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((515, 3000), (3008, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((1, 3000), (3000, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(3000, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr0, out_ptr1, out_ptr2, 3000, 515, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
