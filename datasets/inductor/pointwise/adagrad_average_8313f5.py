"""Pointwise by Inductor: of adagrad_average, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.04}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, out_ptr2, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1048576
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)
    tmp2 = tl.load(in_ptr1 + (x0), None).to(tl.float32)
    tmp5 = tl.load(in_ptr2 + (x0), None).to(tl.float32)
    tmp13 = tl.load(in_ptr3 + (x0), None).to(tl.float32)
    tmp1 = tl_math.abs(tmp0)
    tmp3 = tmp2 * tmp2
    tmp4 = tmp1 + tmp3
    tmp6 = tl.full([1], 0.01, tl.float32)
    tmp7 = tmp2 * tmp6
    tmp8 = tl.sqrt_rn(tmp4)
    tmp9 = tl.full([1], 1e-10, tl.float32)
    tmp10 = tmp8 + tmp9
    tmp11 = (tmp7 / tmp10)
    tmp12 = tmp5 - tmp11
    tmp14 = tl.full([1], 0.999, tl.float32)
    tmp15 = tmp13 * tmp14
    tmp16 = tl.full([1], 0.001, tl.float32)
    tmp17 = tmp12 * tmp16
    tmp18 = tmp15 + tmp17
    tl.store(out_ptr0 + (x0), tmp4, None)
    tl.store(out_ptr1 + (x0), tmp12, None)
    tl.store(out_ptr2 + (x0), tmp18, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    s_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    g_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    p_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    a_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    return (s_1, g_1, p_1, a_1,)


def reference(s_1, g_1, p_1, a_1):
    a_1 = a_1.float()
    mul_2 = aten.mul.Tensor(a_1, 0.999)
    g_1 = g_1.float()
    mul_1 = aten.mul.Tensor(g_1, 0.01)
    s_1 = s_1.float()
    abs_1 = aten.abs.default(s_1)
    mul = aten.mul.Tensor(g_1, g_1)
    add = aten.add.Tensor(abs_1, mul)
    sqrt = aten.sqrt.default(add)
    add_1 = aten.add.Tensor(sqrt, 1e-10)
    div = aten.div.Tensor(mul_1, add_1)
    p_1 = p_1.float()
    sub = aten.sub.Tensor(p_1, div)
    mul_3 = aten.mul.Tensor(sub, 0.001)
    add_2 = aten.add.Tensor(mul_2, mul_3)
    return add.to(torch.bfloat16), sub.to(torch.bfloat16), add_2.to(torch.bfloat16)


def kernel(s_1, g_1, p_1, a_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.bfloat16, device=s_1.device)
    out_ptr1 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.bfloat16, device=s_1.device)
    out_ptr2 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.bfloat16, device=s_1.device)
    grid = (triton.cdiv(1048576, XBLOCK),)
    fused_kernel[grid](s_1, g_1, p_1, a_1, out_ptr0, out_ptr1, out_ptr2, 1048576, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
