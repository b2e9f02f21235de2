"""Pointwise by Inductor: of broadcast_middle, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.008}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x3 = xindex
    x1 = ((xindex // 256) % 128)
    x0 = (xindex % 256)
    tmp0 = tl.load(in_ptr0 + (x3), None).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x1), None, eviction_policy='evict_last').to(tl.float32)
    tmp4 = tl.load(in_ptr2 + (x0), None, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp3 = tl.sigmoid(tmp2)
    tmp5 = tmp3 * tmp4
    tl.store(out_ptr0 + (x3), tmp5, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((64, 128, 256), dtype=torch.bfloat16, device=device)
    m_1 = torch.empty((128, 1), dtype=torch.bfloat16, device=device).normal_(-0.00715, 0.949)
    n_1 = torch.empty((256,), dtype=torch.bfloat16, device=device).normal_(0.143, 1.02)
    return (x_1, m_1, n_1,)


def reference(x_1, m_1, n_1):
    x_1 = x_1.float()
    m_1 = m_1.float()
    add = aten.add.Tensor(x_1, m_1)
    sigmoid = aten.sigmoid.default(add)
    n_1 = n_1.float()
    mul = aten.mul.Tensor(sigmoid, n_1)
    return mul.to(torch.bfloat16)


def kernel(x_1, m_1, n_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((64, 128, 256), (32768, 256, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](x_1, m_1, n_1, out_ptr0, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
