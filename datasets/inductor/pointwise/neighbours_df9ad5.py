"""Pointwise by Inductor: of neighbours, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.04}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2091012
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 1022)
    x1 = xindex // 1022
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (1024 + x0 + 1024*x1), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr0 + (1026 + x0 + 1024*x1), xmask).to(tl.float32)
    tmp3 = tl.load(in_ptr0 + (1025 + x0 + 1024*x1), xmask).to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp4 = tl.full([1], 2.0, tl.float32)
    tmp5 = tmp3 * tmp4
    tmp6 = tmp2 - tmp5
    tl.store(out_ptr0 + (x2), tmp6, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2091012 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    slice_1 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_2 = aten.slice.Tensor(slice_1, 1, 0, -2)
    slice_3 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_4 = aten.slice.Tensor(slice_3, 1, 2, 9223372036854775807)
    slice_2 = slice_2.float()
    slice_4 = slice_4.float()
    add = aten.add.Tensor(slice_2, slice_4)
    slice_5 = aten.slice.Tensor(x_1, 0, 1, -1)
    slice_6 = aten.slice.Tensor(slice_5, 1, 1, -1)
    slice_6 = slice_6.float()
    mul = aten.mul.Tensor(slice_6, 2)
    sub = aten.sub.Tensor(add, mul)
    return sub.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2046, 1022), (1022, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2091012, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2091012, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
