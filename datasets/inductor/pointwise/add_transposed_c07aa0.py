"""Pointwise by Inductor: of add_transposed, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 512],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 501
    xnumel = 3999
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(in_ptr0 + (x1 + 3999*y0), xmask & ymask)
    tmp1 = tl.load(in_ptr1 + (y0 + 501*x1), xmask & ymask)
    tmp2 = tmp0 + tmp1
    tl.store(out_ptr0 + (x1 + 4000*y0), tmp2, xmask & ymask)


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2003499 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((501, 3999), dtype=torch.float32, device=device)
    y_1 = torch.randn((3999, 501), dtype=torch.float32, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    permute = aten.permute.default(y_1, [1, 0])
    add = aten.add.Tensor(x_1, permute)
    return add


def kernel(x_1, y_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((501, 3999), (4000, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(3999, XBLOCK), triton.cdiv(501, YBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr0, 501, 3999, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
