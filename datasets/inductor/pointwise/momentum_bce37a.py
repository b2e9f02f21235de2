"""Pointwise by Inductor: of momentum, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1499499
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 1501)
    x1 = xindex // 1501
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp3 = tl.load(in_ptr1 + (x2), xmask).to(tl.float32)
    tmp5 = tl.load(in_ptr2 + (x2), xmask).to(tl.float32)
    tmp13 = tl.load(in_ptr3 + (x2), xmask).to(tl.float32)
    tmp1 = tl.full([1], 0.9, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp4 = tmp2 + tmp3
    tmp6 = tl.full([1], 0.0001, tl.float32)
    tmp7 = tmp5 * tmp6
    tmp8 = tmp4 + tmp7
    tmp9 = tmp8 * tmp1
    tmp10 = tmp3 + tmp9
    tmp11 = tl.full([1], 0.1, tl.float32)
    tmp12 = tmp10 * tmp11
    tmp14 = tmp12 * tmp13
    tmp15 = tmp5 - tmp14
    tl.store(out_ptr0 + (x0 + 1536*x1), tmp8, xmask)
    tl.store(out_ptr1 + (x0 + 1536*x1), tmp15, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1499499 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    m_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    g_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    p_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    d_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    return (m_1, g_1, p_1, d_1,)


def reference(m_1, g_1, p_1, d_1):
    m_1 = m_1.float()
    mul = aten.mul.Tensor(m_1, 0.9)
    g_1 = g_1.float()
    add = aten.add.Tensor(mul, g_1)
    p_1 = p_1.float()
    mul_1 = aten.mul.Tensor(p_1, 0.0001)
    add_1 = aten.add.Tensor(add, mul_1)
    mul_2 = aten.mul.Tensor(add_1, 0.9)
    add_2 = aten.add.Tensor(g_1, mul_2)
    mul_3 = aten.mul.Tensor(add_2, 0.1)
    d_1 = d_1.float()
    mul_4 = aten.mul.Tensor(mul_3, d_1)
    sub = aten.sub.Tensor(p_1, mul_4)
    return add_1.to(torch.float16), sub.to(torch.float16)


def kernel(m_1, g_1, p_1, d_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((999, 1501), (1536, 1), dtype=torch.float16, device=m_1.device)
    out_ptr1 = torch.empty_strided((999, 1501), (1536, 1), dtype=torch.float16, device=m_1.device)
    grid = (triton.cdiv(1499499, XBLOCK),)
    fused_kernel[grid](m_1, g_1, p_1, d_1, out_ptr0, out_ptr1, 1499499, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
