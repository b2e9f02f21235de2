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
TOLERANCE = {"rtol": 0.0001, "atol": 8e-05}


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
        tmp1 = -tmp0
        tmp2 = libdevice.exp(tmp1)
        tmp3 = tl.full([1], 1.0, tl.float32)
        tmp4 = tmp2 + tmp3
        tmp5 = (tmp0 / tmp4)
        tl.store(out_ptr0 + (x0), tmp5, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 25641
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp6 = tl.load(in_ptr1 + (x1), xmask)
        tmp7 = tmp6 * tmp6
        tmp8 = tl.full([1], 1.0, tl.float32)
        tmp9 = tmp7 + tmp8
        tmp10 = libdevice.rsqrt(tmp9)
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
    neg = aten.neg.default(c_1)
    exp_1 = aten.exp.default(neg)
    add_1 = aten.add.Tensor(exp_1, 1)
    div = aten.div.Tensor(c_1, add_1)
    mul_1 = aten.mul.Tensor(d_1, d_1)
    add_2 = aten.add.Tensor(mul_1, 1)
    rsqrt = aten.rsqrt.default(add_2)
    return div, rsqrt


def kernel(c_1, d_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((512, 768), (768, 1), dtype=torch.float32, device=c_1.device)
    out_ptr1 = torch.empty_strided((333, 77), (77, 1), dtype=torch.float32, device=c_1.device)
    grid = (triton.cdiv(393216, XBLOCK) + triton.cdiv(25641, XBLOCK),)
    fused_kernel[grid](c_1, d_1, out_ptr0, out_ptr1, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
