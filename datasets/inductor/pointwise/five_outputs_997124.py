"""Pointwise by Inductor: of five_outputs, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.03}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, out_ptr1, out_ptr2, out_ptr3, out_ptr4, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)
    tmp1 = libdevice.tanh(tmp0)
    tmp2 = tmp1 * tmp1
    tmp3 = tl.full([1], 1.0, tl.float32)
    tmp4 = tmp3 - tmp2
    tmp5 = libdevice.exp(tmp0)
    tmp6 = -tmp0
    tmp7 = tl.full([1], 0, tl.int32)
    tmp8 = triton_helpers.maximum(tmp7, tmp0)
    tl.store(out_ptr0 + (x0), tmp1, None)
    tl.store(out_ptr1 + (x0), tmp4, None)
    tl.store(out_ptr2 + (x0), tmp5, None)
    tl.store(out_ptr3 + (x0), tmp6, None)
    tl.store(out_ptr4 + (x0), tmp8, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    tanh = aten.tanh.default(x_1)
    mul = aten.mul.Tensor(tanh, tanh)
    sub = aten.sub.Tensor(1, mul)
    exp = aten.exp.default(x_1)
    neg = aten.neg.default(x_1)
    relu = aten.relu.default(x_1)
    return tanh.to(torch.bfloat16), sub.to(torch.bfloat16), exp.to(torch.bfloat16), neg.to(torch.bfloat16), relu.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    out_ptr3 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    out_ptr4 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, out_ptr4, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2, out_ptr3, out_ptr4
