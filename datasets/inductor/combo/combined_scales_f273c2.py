"""Combo by Inductor: of combined_scales, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0002}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, XBLOCK : tl.constexpr):
    pid = tl.program_id(0)
    num_xblocks_0 = tl.cdiv(1048576, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(4096, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 1048576
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (x0), xmask)
        tmp1 = tl.full([1], 2.0, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp3 = tl.full([1], 1.0, tl.float32)
        tmp4 = tmp2 + tmp3
        tl.store(out_ptr0 + (x0), tmp4, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 4096
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp5 = tl.load(in_ptr1 + (x1), xmask)
        tmp6 = libdevice.exp(tmp5)
        tmp7 = tl.full([1], 1.0, tl.float32)
        tmp8 = tmp6 - tmp7
        tl.store(out_ptr1 + (x1), tmp8, xmask)
    else:
        pass


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((1024, 1024), dtype=torch.float32, device=device)
    b_1 = torch.randn((4096,), dtype=torch.float32, device=device)
    return (a_1, b_1,)


def reference(a_1, b_1):
    mul = aten.mul.Tensor(a_1, 2)
    add = aten.add.Tensor(mul, 1)
    exp = aten.exp.default(b_1)
    sub = aten.sub.Tensor(exp, 1)
    return add, sub


def kernel(a_1, b_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 1024), (1024, 1), dtype=torch.float32, device=a_1.device)
    out_ptr1 = torch.empty_strided((4096,), (1,), dtype=torch.float32, device=a_1.device)
    grid = (triton.cdiv(1048576, XBLOCK) + triton.cdiv(4096, XBLOCK),)
    fused_kernel[grid](a_1, b_1, out_ptr0, out_ptr1, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
