"""Pointwise by Inductor: of stencil_3d, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 547832
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 94)
    x1 = ((xindex // 94) % 94)
    x2 = xindex // 8836
    x3 = (xindex % 8836)
    tmp0 = tl.load(in_ptr0 + (9313 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp3 = tl.load(in_ptr0 + (97 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp5 = tl.load(in_ptr0 + (18529 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp7 = tl.load(in_ptr0 + (9217 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp9 = tl.load(in_ptr0 + (9409 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp11 = tl.load(in_ptr0 + (9312 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp13 = tl.load(in_ptr0 + (9314 + x0 + 96*x1 + 9216*x2), xmask).to(tl.float32)
    tmp1 = tl.full([1], -6.0, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp4 = tmp2 + tmp3
    tmp6 = tmp4 + tmp5
    tmp8 = tmp6 + tmp7
    tmp10 = tmp8 + tmp9
    tmp12 = tmp10 + tmp11
    tmp14 = tmp12 + tmp13
    tl.store(out_ptr0 + (x3 + 8896*x2), tmp14, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((64, 96, 96), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    slice_1 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_2 = aten.slice.Tensor(slice_1, 1, 1, -1)
    slice_3 = aten.slice.Tensor(slice_2, 2, 1, -1)
    slice_3 = slice_3.float()
    mul = aten.mul.Tensor(slice_3, -6)
    slice_4 = aten.slice.Tensor(x_1, 0, 0, -2)
    slice_5 = aten.slice.Tensor(slice_4, 1, 1, -1)
    slice_6 = aten.slice.Tensor(slice_5, 2, 1, -1)
    slice_6 = slice_6.float()
    add = aten.add.Tensor(mul, slice_6)
    slice_7 = aten.slice.Tensor(x_1, 0, 2, 9223372036854775807)
    slice_8 = aten.slice.Tensor(slice_7, 1, 1, -1)
    slice_9 = aten.slice.Tensor(slice_8, 2, 1, -1)
    slice_9 = slice_9.float()
    add_1 = aten.add.Tensor(add, slice_9)
    slice_10 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_11 = aten.slice.Tensor(slice_10, 1, 0, -2)
    slice_12 = aten.slice.Tensor(slice_11, 2, 1, -1)
    slice_12 = slice_12.float()
    add_2 = aten.add.Tensor(add_1, slice_12)
    slice_13 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_14 = aten.slice.Tensor(slice_13, 1, 2, 9223372036854775807)
    slice_15 = aten.slice.Tensor(slice_14, 2, 1, -1)
    slice_15 = slice_15.float()
    add_3 = aten.add.Tensor(add_2, slice_15)
    slice_16 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_17 = aten.slice.Tensor(slice_16, 1, 1, -1)
    slice_18 = aten.slice.Tensor(slice_17, 2, 0, -2)
    slice_18 = slice_18.float()
    add_4 = aten.add.Tensor(add_3, slice_18)
    slice_19 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_20 = aten.slice.Tensor(slice_19, 1, 1, -1)
    slice_21 = aten.slice.Tensor(slice_20, 2, 2, 9223372036854775807)
    slice_21 = slice_21.float()
    add_5 = aten.add.Tensor(add_4, slice_21)
    return add_5.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((62, 94, 94), (8896, 94, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(547832, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 547832, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
