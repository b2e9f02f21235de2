"""Pointwise by Inductor: of masked_fill, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.4}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1999500
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 3999)
    x1 = xindex // 3999
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.int1)
    tmp1 = tl.load(in_ptr1 + (x2), xmask)
    tmp2 = tl.full([1], -10000.0, tl.float32)
    tmp3 = tl.where(tmp0, tmp2, tmp1)
    tmp4 = tl.full([1], 0.5, tl.float32)
    tmp5 = tmp3 * tmp4
    tl.store(out_ptr0 + (x0 + 4000*x1), tmp5, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1999500 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    mask_1 = torch.rand((500, 3999), device=device) < 0.9
    x_1 = torch.randn((500, 3999), dtype=torch.float32, device=device)
    return (mask_1, x_1,)


def reference(mask_1, x_1):
    scalar_tensor = aten.scalar_tensor.default(-10000.0, dtype=torch.float32, device=mask_1.device)
    where = aten.where.self(mask_1, scalar_tensor, x_1)
    mul = aten.mul.Tensor(where, 0.5)
    return mul


def kernel(mask_1, x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((500, 3999), (4000, 1), dtype=torch.float32, device=mask_1.device)
    grid = (triton.cdiv(1999500, XBLOCK),)
    fused_kernel[grid](mask_1, x_1, out_ptr0, 1999500, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
