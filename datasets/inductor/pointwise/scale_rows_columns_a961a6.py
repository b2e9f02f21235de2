"""Pointwise by Inductor: of scale_rows_columns, float16."""

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
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1750000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x1 = xindex // 2500
    x0 = (xindex % 2500)
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp3 = tl.load(in_ptr2 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 * tmp1
    tmp4 = tmp2 + tmp3
    tl.store(out_ptr0 + (x0 + 2560*x1), tmp4, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1750000 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((700, 2500), dtype=torch.float16, device=device)
    rows_1 = torch.empty((700, 1), dtype=torch.float16, device=device).normal_(0.03, 1.05)
    columns_1 = torch.empty((2500,), dtype=torch.float16, device=device).normal_(0.0569, 1.03)
    return (x_1, rows_1, columns_1,)


def reference(x_1, rows_1, columns_1):
    x_1 = x_1.float()
    rows_1 = rows_1.float()
    mul = aten.mul.Tensor(x_1, rows_1)
    columns_1 = columns_1.float()
    add = aten.add.Tensor(mul, columns_1)
    return add.to(torch.float16)


def kernel(x_1, rows_1, columns_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((700, 2500), (2560, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(1750000, XBLOCK),)
    fused_kernel[grid](x_1, rows_1, columns_1, out_ptr0, 1750000, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
