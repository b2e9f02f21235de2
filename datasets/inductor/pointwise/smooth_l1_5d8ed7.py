"""Pointwise by Inductor: of smooth_l1, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.007}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1665333
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 5001)
    x1 = xindex // 5001
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp2 = tl.load(in_ptr1 + (x2), xmask).to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp3 = tmp2.to(tl.float32)
    tmp4 = tmp1 - tmp3
    tmp5 = tl_math.abs(tmp4)
    tmp6 = tl.full([1], 1.0, tl.float32)
    tmp7 = tmp5 < tmp6
    tmp8 = tmp5 * tmp5
    tmp9 = tl.full([1], 0.5, tl.float32)
    tmp10 = tmp8 * tmp9
    tmp11 = tmp10 * tmp6
    tmp12 = tmp5 - tmp9
    tmp13 = tl.where(tmp7, tmp11, tmp12)
    tmp14 = tmp13.to(tl.float32)
    tl.store(out_ptr0 + (x0 + 5056*x1), tmp14, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1665333 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    y_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    convert_element_type = x_1.to(torch.float32)
    convert_element_type_1 = y_1.to(torch.float32)
    sub = aten.sub.Tensor(convert_element_type, convert_element_type_1)
    abs_1 = aten.abs.default(sub)
    lt = aten.lt.Scalar(abs_1, 1.0)
    pow_1 = aten.pow.Tensor_Scalar(abs_1, 2)
    mul = aten.mul.Tensor(pow_1, 0.5)
    div = aten.div.Tensor(mul, 1.0)
    sub_1 = aten.sub.Tensor(abs_1, 0.5)
    where = aten.where.self(lt, div, sub_1)
    convert_element_type_2 = where.to(torch.float16)
    return convert_element_type_2


def kernel(x_1, y_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((333, 5001), (5056, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(1665333, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr0, 1665333, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
