"""Reduction by Inductor: of product_silu, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [16, 32, 64, 128, 256, 1024],
    "XBLOCK": [16, 32, 64, 128, 256, 512, 1024, 2048],
    "R0_BLOCK": [16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4, 5],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr1, ynumel, xnumel, r0_numel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    ynumel = 2048
    xnumel = 2048
    r0_numel = 1024
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    yoffset = tl.program_id(1).to(tl.int64) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None, None].to(tl.int64)
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None, None]
    xoffset = tl.program_id(0).to(tl.int64) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :, None].to(tl.int64)
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, None, :].to(tl.int64)
    rbase = r0_base
    y0 = yindex
    x1 = xindex
    _tmp10 = tl.full([YBLOCK, XBLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_2 + 1024*y0), r0_mask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp2 = tl.load(in_ptr1 + (x1 + 2048*r0_2), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float16)
        tmp3 = tmp2.to(tl.float16)
        tmp4 = tl.where(r0_mask, tmp1, 0)
        tmp5 = tl.where(r0_mask, tmp3, 0)
        tmp6 = tl.reshape(tmp4, [YBLOCK, R0_BLOCK])
        tmp7 = tl.trans(tl.reshape(tmp5, [XBLOCK, R0_BLOCK]))
        tmp8 = tl.dot(tmp6, tmp7, input_precision="tf32")
        tmp9 = tl.broadcast_to(tmp8, [YBLOCK, XBLOCK])
        tmp11 = _tmp10 + tmp9
        _tmp10 = tmp11
    tmp10 = _tmp10[:,:,None]
    tmp19 = tl.load(in_ptr2 + (x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp12 = tmp10.to(tl.float32)
    tmp13 = -tmp12
    tmp14 = libdevice.exp(tmp13)
    tmp15 = tl.full([1, 1, 1], 1.0, tl.float32)
    tmp16 = tmp14 + tmp15
    tmp17 = (tmp12 / tmp16)
    tmp18 = tmp17.to(tl.float32)
    tmp20 = tmp18 * tmp19
    tl.store(out_ptr1 + (x1 + 2048*y0), tmp20, xmask)


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 4194304 <= 1048576 * params["XBLOCK"] * params["YBLOCK"] and params["num_stages"] * params["R0_BLOCK"] * 2 * (params["YBLOCK"] + params["XBLOCK"]) <= 232448


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.float16, device=device)
    w_1 = torch.randn((1024, 2048), dtype=torch.float16, device=device)
    b_1 = torch.randn((2048,), dtype=torch.float16, device=device)
    return (x_1, w_1, b_1,)


def reference(x_1, w_1, b_1):
    mm = aten.mm.default(x_1, w_1)
    convert_element_type_2 = mm.to(torch.float32)
    neg = aten.neg.default(convert_element_type_2)
    exp = aten.exp.default(neg)
    add = aten.add.Tensor(exp, 1)
    div = aten.div.Tensor(convert_element_type_2, add)
    b_1 = b_1.float()
    mul = aten.mul.Tensor(div, b_1)
    return mul.to(torch.float16)


def kernel(x_1, w_1, b_1, *, YBLOCK=32, XBLOCK=32, R0_BLOCK=16, num_warps=2, num_stages=1):
    out_ptr1 = torch.empty_strided((2048, 2048), (2048, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK), triton.cdiv(2048, YBLOCK),)
    fused_kernel[grid](x_1, w_1, b_1, out_ptr1, 2048, 2048, 1024, YBLOCK=YBLOCK, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
