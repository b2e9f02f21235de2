"""Pointwise by Inductor: of glu_halves, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 2e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 2048
    xnumel = 2048
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = (x1).to(tl.int32)
    tmp1 = tl.full([1, 1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = (x1).to(tl.int64)
    tmp4 = (tmp3).to(tl.int64)
    tmp5 = tl.full([1, 1], 1024, tl.int64)
    tmp6 = tmp4 < tmp5
    tmp7 = tl.load(in_ptr0 + (1024 + 2048*y0 + (x1)), tmp6 & xmask, eviction_policy='evict_last', other=0.0)
    tmp8 = tl.sigmoid(tmp7)
    tmp9 = tl.load(in_ptr1 + (1024*y0 + (x1)), tmp6 & xmask, eviction_policy='evict_last', other=0.0)
    tmp10 = tmp8 * tmp9
    tmp11 = tl.full(tmp10.shape, 0.0, tmp10.dtype)
    tmp12 = tl.where(tmp6, tmp10, tmp11)
    tmp13 = tmp0 >= tmp5
    tmp14 = tl.full([1, 1], 2048, tl.int64)
    tmp15 = tmp0 < tmp14
    tmp16 = tl.load(in_ptr0 + (1024 + 2048*y0 + ((-1024) + x1)), tmp13 & xmask, eviction_policy='evict_last', other=0.0)
    tmp17 = tl.sigmoid(tmp16)
    tmp18 = tl.full([1, 1], 1.0, tl.float32)
    tmp19 = tmp18 - tmp17
    tmp20 = tmp19 * tmp17
    tmp21 = tl.load(in_ptr0 + (2048*y0 + ((-1024) + x1)), tmp13 & xmask, eviction_policy='evict_last', other=0.0)
    tmp22 = tmp20 * tmp21
    tmp23 = tl.load(in_ptr1 + (1024*y0 + ((-1024) + x1)), tmp13 & xmask, eviction_policy='evict_last', other=0.0)
    tmp24 = tmp22 * tmp23
    tmp25 = tl.full(tmp24.shape, 0.0, tmp24.dtype)
    tmp26 = tl.where(tmp13, tmp24, tmp25)
    tmp27 = tl.where(tmp6, tmp12, tmp26)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[2048, 2048], strides=[2048, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp27, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 4194304 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 2048), dtype=torch.float32, device=device)
    glu = torch.empty((2048, 1024), dtype=torch.float32, device=device).normal_(0.000183, 0.541)
    return (arg0_1, glu,)


def reference(arg0_1, glu):
    slice_2 = aten.slice.Tensor(arg0_1, 1, 1024, 2048)
    sigmoid = aten.sigmoid.default(slice_2)
    mul_3 = aten.mul.Tensor(sigmoid, glu)
    sub = aten.sub.Tensor(1.0, sigmoid)
    mul = aten.mul.Tensor(sub, sigmoid)
    slice_1 = aten.slice.Tensor(arg0_1, 1, 0, 1024)
    mul_1 = aten.mul.Tensor(mul, slice_1)
    mul_2 = aten.mul.Tensor(mul_1, glu)
    cat = aten.cat.default([mul_3, mul_2], 1)
    return cat


def kernel(arg0_1, glu, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 2048), (2048, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(2048, XBLOCK), triton.cdiv(2048, YBLOCK),)
    fused_kernel[grid](arg0_1, glu, out_ptr0, 2048, 2048, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
