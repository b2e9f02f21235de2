"""Pointwise by Inductor: of adam, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, out_ptr2, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1048576
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)
    tmp3 = tl.load(in_ptr1 + (x0), None).to(tl.float32)
    tmp7 = tl.load(in_ptr2 + (x0), None).to(tl.float32)
    tmp15 = tl.load(in_ptr3 + (x0), None).to(tl.float32)
    tmp1 = tl.full([1], 0.9, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp4 = tl.full([1], 0.1, tl.float32)
    tmp5 = tmp3 * tmp4
    tmp6 = tmp2 + tmp5
    tmp8 = tl_math.abs(tmp7)
    tmp9 = tl.full([1], 0.999, tl.float32)
    tmp10 = tmp8 * tmp9
    tmp11 = tl.full([1], 0.001, tl.float32)
    tmp12 = tmp3 * tmp11
    tmp13 = tmp12 * tmp3
    tmp14 = tmp10 + tmp13
    tmp16 = tmp6 * tmp11
    tmp17 = tl.sqrt_rn(tmp14)
    tmp18 = tl.full([1], 1e-08, tl.float32)
    tmp19 = tmp17 + tmp18
    tmp20 = (tmp16 / tmp19)
    tmp21 = tmp15 - tmp20
    tl.store(out_ptr0 + (x0), tmp6, None)
    tl.store(out_ptr1 + (x0), tmp14, None)
    tl.store(out_ptr2 + (x0), tmp21, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    m_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    g_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    v_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    p_1 = torch.randn((1024, 1024), dtype=torch.bfloat16, device=device)
    return (m_1, g_1, v_1, p_1,)


def reference(m_1, g_1, v_1, p_1):
    m_1 = m_1.float()
    mul = aten.mul.Tensor(m_1, 0.9)
    g_1 = g_1.float()
    mul_1 = aten.mul.Tensor(g_1, 0.1)
    add = aten.add.Tensor(mul, mul_1)
    mul_5 = aten.mul.Tensor(add, 0.001)
    v_1 = v_1.float()
    abs_1 = aten.abs.default(v_1)
    mul_2 = aten.mul.Tensor(abs_1, 0.999)
    mul_3 = aten.mul.Tensor(g_1, 0.001)
    mul_4 = aten.mul.Tensor(mul_3, g_1)
    add_1 = aten.add.Tensor(mul_2, mul_4)
    sqrt = aten.sqrt.default(add_1)
    add_2 = aten.add.Tensor(sqrt, 1e-08)
    div = aten.div.Tensor(mul_5, add_2)
    p_1 = p_1.float()
    sub = aten.sub.Tensor(p_1, div)
    return add.to(torch.bfloat16), add_1.to(torch.bfloat16), sub.to(torch.bfloat16)


def kernel(m_1, g_1, v_1, p_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.bfloat16, device=m_1.device)
    out_ptr1 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.bfloat16, device=m_1.device)
    out_ptr2 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.bfloat16, device=m_1.device)
    grid = (triton.cdiv(1048576, XBLOCK),)
    fused_kernel[grid](m_1, g_1, v_1, p_1, out_ptr0, out_ptr1, out_ptr2, 1048576, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
