"""Pointwise by Inductor: of glu_halves, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 4e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 767011
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 1501)
    x1 = xindex // 1501
    tmp0 = tl.load(in_ptr0 + (x0 + 3002*x1), xmask)
    tmp1 = tl.load(in_ptr0 + (1501 + x0 + 3002*x1), xmask)
    tmp2 = tl.sigmoid(tmp1)
    tmp3 = tmp0 * tmp2
    tl.store(out_ptr0 + (x0 + 1504*x1), tmp3, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((511, 3002), dtype=torch.float32, device=device)
    return (arg0_1,)


def reference(arg0_1):
    glu = aten.glu.default(arg0_1)
    return glu


def kernel(arg0_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((511, 1501), (1504, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(767011, XBLOCK),)
    fused_kernel[grid](arg0_1, out_ptr0, 767011, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
