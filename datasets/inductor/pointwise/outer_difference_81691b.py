"""Pointwise by Inductor: of outer_difference, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.005}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2331777
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 3001
    x0 = (xindex % 3001)
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 - tmp1
    tmp3 = tmp2 * tmp2
    tmp4 = -tmp3
    tmp5 = libdevice.exp(tmp4)
    tl.store(out_ptr0 + (x0 + 3008*x1), tmp5, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2331777 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.empty((777, 1), dtype=torch.float16, device=device).normal_(0.0579, 1.03)
    y_1 = torch.empty((1, 3001), dtype=torch.float16, device=device).normal_(-0.0133, 0.979)
    return (x_1, y_1,)


def reference(x_1, y_1):
    x_1 = x_1.float()
    y_1 = y_1.float()
    sub = aten.sub.Tensor(x_1, y_1)
    pow_1 = aten.pow.Tensor_Scalar(sub, 2)
    neg = aten.neg.default(pow_1)
    exp = aten.exp.default(neg)
    return exp.to(torch.float16)


def kernel(x_1, y_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((777, 3001), (3008, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2331777, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr0, 2331777, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
