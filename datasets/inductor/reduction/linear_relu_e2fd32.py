"""Reduction by Inductor: of linear_relu, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [16, 32, 64, 128, 256, 1024],
    "XBLOCK": [16, 32, 64, 128, 256, 512, 1024, 2048],
    "R0_BLOCK": [16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4, 5],
}
TOLERANCE = {"rtol": 0.005, "atol": 0.07}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr1, ynumel, xnumel, r0_numel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    ynumel = 1000
    xnumel = 1500
    r0_numel = 712
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, None, :]
    rbase = r0_base
    y0 = yindex
    x1 = xindex
    _tmp6 = tl.full([YBLOCK, XBLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_2 + 712*y0), r0_mask & ymask, eviction_policy='evict_last', other=0.0)
        tmp1 = tl.load(in_ptr1 + (x1 + 1500*r0_2), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp2 = tl.reshape(tmp0, [YBLOCK, R0_BLOCK])
        tmp3 = tl.trans(tl.reshape(tmp1, [XBLOCK, R0_BLOCK]))
        tmp4 = tl.dot(tmp2, tmp3, input_precision="tf32")
        tmp5 = tl.broadcast_to(tmp4, [YBLOCK, XBLOCK])
        tmp7 = _tmp6 + tmp5
        _tmp6 = tmp7
    tmp6 = _tmp6[:,:,None]
    tmp8 = tl.load(in_ptr2 + (x1), xmask, eviction_policy='evict_last')
    tmp9 = tmp8 + tmp6
    tmp10 = tl.full([1, 1, 1], 0, tl.int32)
    tmp11 = triton_helpers.maximum(tmp10, tmp9)
    tl.store(out_ptr1 + (x1 + 1504*y0), tmp11, xmask & ymask)


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1500000 <= 1048576 * params["XBLOCK"] * params["YBLOCK"] and params["num_stages"] * params["R0_BLOCK"] * 4 * (params["YBLOCK"] + params["XBLOCK"]) <= 232448


def inputs(device="cuda"):
    x_1 = torch.randn((1000, 712), dtype=torch.float32, device=device)
    w_1 = torch.randn((712, 1500), dtype=torch.float32, device=device)
    b_1 = torch.empty((1500,), dtype=torch.float32, device=device).normal_(0.0299, 0.99)
    return (x_1, w_1, b_1,)


def reference(x_1, w_1, b_1):
    mm_default = aten.mm.default(x_1, w_1)
    add_tensor = aten.add.Tensor(b_1, mm_default)
    relu = aten.relu.default(add_tensor)
    return relu


def kernel(x_1, w_1, b_1, *, YBLOCK=32, XBLOCK=32, R0_BLOCK=16, num_warps=2, num_stages=1):
    out_ptr1 = torch.empty_strided((1000, 1500), (1504, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1500, XBLOCK), triton.cdiv(1000, YBLOCK),)
    fused_kernel[grid](x_1, w_1, b_1, out_ptr1, 1000, 1500, 712, YBLOCK=YBLOCK, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
