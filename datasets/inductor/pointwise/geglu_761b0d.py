"""Pointwise by Inductor: of geglu, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 3e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1665333
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 5001)
    x1 = xindex // 5001
    tmp0 = tl.load(in_ptr0 + (x2), xmask)
    tmp9 = tl.load(in_ptr1 + (x2), xmask)
    tmp1 = tl.full([1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.full([1], 0.7071067811865476, tl.float32)
    tmp4 = tmp0 * tmp3
    tmp5 = libdevice.erf(tmp4)
    tmp6 = tl.full([1], 1.0, tl.float32)
    tmp7 = tmp5 + tmp6
    tmp8 = tmp2 * tmp7
    tmp10 = tmp8 * tmp9
    tl.store(out_ptr0 + (x0 + 5024*x1), tmp10, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1665333 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    gate_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    x_1 = torch.randn((333, 5001), dtype=torch.float32, device=device)
    return (gate_1, x_1,)


def reference(gate_1, x_1):
    mul = aten.mul.Tensor(gate_1, 0.5)
    mul_1 = aten.mul.Tensor(gate_1, 0.7071067811865476)
    erf = aten.erf.default(mul_1)
    add = aten.add.Tensor(erf, 1)
    mul_2 = aten.mul.Tensor(mul, add)
    mul_3 = aten.mul.Tensor(mul_2, x_1)
    return mul_3


def kernel(gate_1, x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((333, 5001), (5024, 1), dtype=torch.float32, device=gate_1.device)
    grid = (triton.cdiv(1665333, XBLOCK),)
    fused_kernel[grid](gate_1, x_1, out_ptr0, 1665333, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
