"""Pointwise by Inductor: of compare_mask, float16."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 5e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1665333
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 5001)
    x1 = xindex // 5001
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x2), xmask).to(tl.float32)
    tmp2 = tmp0 >= tmp1
    tmp3 = tmp0 - tmp1
    tmp4 = tl_math.abs(tmp3)
    tmp5 = tl.full([1], 0.0999755859375, tl.float32)
    tmp6 = tmp4 < tmp5
    tl.store(out_ptr0 + (x0 + 5120*x1), tmp2, xmask)
    tl.store(out_ptr1 + (x0 + 5120*x1), tmp6, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1665333 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    y_1 = torch.randn((333, 5001), dtype=torch.float16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    x_1 = x_1.float()
    y_1 = y_1.float()
    ge = aten.ge.Tensor(x_1, y_1)
    sub = aten.sub.Tensor(x_1, y_1)
    abs_1 = aten.abs.default(sub)
    lt = aten.lt.Scalar(abs_1, 0.0999755859375)
    return ge, lt


def kernel(x_1, y_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((333, 5001), (5120, 1), dtype=torch.bool, device=x_1.device)
    out_ptr1 = torch.empty_strided((333, 5001), (5120, 1), dtype=torch.bool, device=x_1.device)
    grid = (triton.cdiv(1665333, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr0, out_ptr1, 1665333, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
