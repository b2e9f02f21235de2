"""Combo by Inductor: of combined_activations, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 6e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(393216, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(25641, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 393216
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (x0), xmask)
        tmp1 = tl.full([1], 0.5, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp3 = tl.full([1], 0.7071067811865476, tl.float32)
        tmp4 = tmp0 * tmp3
        tmp5 = libdevice.erf(tmp4)
        tmp6 = tl.full([1], 1.0, tl.float32)
        tmp7 = tmp5 + tmp6
        tmp8 = tmp2 * tmp7
        tl.store(out_ptr0 + (x0), tmp8, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 25641
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp9 = tl.load(in_ptr1 + (x1), xmask)
        tmp10 = libdevice.tanh(tmp9)
        tl.store(out_ptr1 + (x1), tmp10, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    c_1 = torch.randn((512, 768), dtype=torch.float32, device=device)
    d_1 = torch.randn((333, 77), dtype=torch.float32, device=device)
    return (c_1, d_1,)


def reference(c_1, d_1):
    mul = aten.mul.Tensor(c_1, 0.5)
    mul_1 = aten.mul.Tensor(c_1, 0.7071067811865476)
    erf = aten.erf.default(mul_1)
    add = aten.add.Tensor(erf, 1)
    mul_2 = aten.mul.Tensor(mul, add)
    tanh = aten.tanh.default(d_1)
    return mul_2, tanh


def kernel(c_1, d_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((512, 768), (768, 1), dtype=torch.float32, device=c_1.device)
    out_ptr1 = torch.empty_strided((333, 77), (77, 1), dtype=torch.float32, device=c_1.device)
    grid = (triton.cdiv(393216, XBLOCK) + triton.cdiv(25641, XBLOCK),)
    fused_kernel[grid](c_1, d_1, out_ptr0, out_ptr1, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
