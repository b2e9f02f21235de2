"""Pointwise by Inductor: of linear_gelu, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0009}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 524288
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x2 = xindex
    x0 = (xindex % 1024)
    tmp0 = tl.load(in_ptr0 + (x2), None)
    tmp1 = tl.load(in_ptr1 + (x0), None, eviction_policy='evict_last')
    tmp2 = tmp0 + tmp1
    tmp3 = tl.full([1], 0.5, tl.float32)
    tmp4 = tmp2 * tmp3
    tmp5 = tl.full([1], 0.7071067811865476, tl.float32)
    tmp6 = tmp2 * tmp5
    tmp7 = libdevice.erf(tmp6)
    tmp8 = tl.full([1], 1.0, tl.float32)
    tmp9 = tmp7 + tmp8
    tmp10 = tmp4 * tmp9
    tl.store(out_ptr0 + (x2), tmp10, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    mm = torch.empty((512, 1024), dtype=torch.float32, device=device).normal_(-0.00262, 22.6)
    b_1 = torch.empty((1024,), dtype=torch.float32, device=device).normal_(-0.0398, 1.02)
    return (mm, b_1,)


def reference(mm, b_1):
    add = aten.add.Tensor(mm, b_1)
    mul = aten.mul.Tensor(add, 0.5)
    mul_1 = aten.mul.Tensor(add, 0.7071067811865476)
    erf = aten.erf.default(mul_1)
    add_1 = aten.add.Tensor(erf, 1)
    mul_2 = aten.mul.Tensor(mul, add_1)
    return mul_2


def kernel(mm, b_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((512, 1024), (1024, 1), dtype=torch.float32, device=mm.device)
    grid = (triton.cdiv(524288, XBLOCK),)
    fused_kernel[grid](mm, b_1, out_ptr0, 524288, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
