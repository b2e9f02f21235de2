"""Pointwise by Inductor: of lion, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.008}


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
    tmp1 = tl.load(in_ptr1 + (x2), xmask).to(tl.float32)
    tmp4 = tl.load(in_ptr2 + (x2), xmask).to(tl.float32)
    tmp15 = tl.load(in_ptr3 + (x2), xmask).to(tl.float32)
    tmp2 = tl.full([1], 0.9, tl.float32)
    tmp3 = tmp1 * tmp2
    tmp5 = tl.full([1], 0.1, tl.float32)
    tmp6 = tmp4 * tmp5
    tmp7 = tmp3 + tmp6
    tmp8 = tl.full([1], 0, tl.int32)
    tmp9 = tmp8 < tmp7
    tmp10 = tmp9.to(tl.int8)
    tmp11 = tmp7 < tmp8
    tmp12 = tmp11.to(tl.int8)
    tmp13 = tmp10 - tmp12
    tmp14 = tmp13.to(tmp7.dtype)
    tmp16 = tmp15 * tmp5
    tmp17 = tmp14 + tmp16
    tmp18 = tl.full([1], 0.0001, tl.float32)
    tmp19 = tmp17 * tmp18
    tmp20 = tmp0 - tmp19
    tmp21 = tl.full([1], 0.99, tl.float32)
    tmp22 = tmp1 * tmp21
    tmp23 = tl.full([1], 0.01, tl.float32)
    tmp24 = tmp4 * tmp23
    tmp25 = tmp22 + tmp24
    tl.store(out_ptr0 + (x0 + 1536*x1), tmp20, xmask)
    tl.store(out_ptr1 + (x0 + 1536*x1), tmp25, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1499499 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    p_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    m_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    g_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    d_1 = torch.randn((999, 1501), dtype=torch.float16, device=device)
    return (p_1, m_1, g_1, d_1,)


def reference(p_1, m_1, g_1, d_1):
    m_1 = m_1.float()
    mul = aten.mul.Tensor(m_1, 0.9)
    g_1 = g_1.float()
    mul_1 = aten.mul.Tensor(g_1, 0.1)
    add = aten.add.Tensor(mul, mul_1)
    sign = aten.sign.default(add)
    d_1 = d_1.float()
    mul_2 = aten.mul.Tensor(d_1, 0.1)
    add_1 = aten.add.Tensor(sign, mul_2)
    mul_3 = aten.mul.Tensor(add_1, 0.0001)
    p_1 = p_1.float()
    sub = aten.sub.Tensor(p_1, mul_3)
    mul_4 = aten.mul.Tensor(m_1, 0.99)
    mul_5 = aten.mul.Tensor(g_1, 0.01)
    add_2 = aten.add.Tensor(mul_4, mul_5)
    return sub.to(torch.float16), add_2.to(torch.float16)


def kernel(p_1, m_1, g_1, d_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((999, 1501), (1536, 1), dtype=torch.float16, device=p_1.device)
    out_ptr1 = torch.empty_strided((999, 1501), (1536, 1), dtype=torch.float16, device=p_1.device)
    grid = (triton.cdiv(1499499, XBLOCK),)
    fused_kernel[grid](p_1, m_1, g_1, d_1, out_ptr0, out_ptr1, 1499499, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
