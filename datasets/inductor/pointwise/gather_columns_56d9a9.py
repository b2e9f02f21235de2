"""Pointwise by Inductor: of gather_columns, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 599700
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x1 = xindex // 1999
    x0 = (xindex % 1999)
    tmp0 = tl.load(in_ptr0 + (x2), xmask)
    tl.device_assert(((0 <= tmp0) & (tmp0 < 5000)) | ~(xmask), "index out of bounds: 0 <= tmp0 < 5000")
    tmp2 = tl.load(in_ptr1 + (tmp0 + 5000*x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp3 = libdevice.exp(tmp2)
    tl.store(out_ptr0 + (x0 + 2048*x1), tmp3, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    index_1 = torch.randint(0, 5000, (300, 1999), dtype=torch.int64, device=device)
    x_1 = torch.randn((300, 5000), dtype=torch.float16, device=device)
    return (index_1, x_1,)


def reference(index_1, x_1):
    gather = aten.gather.default(x_1, 1, index_1)
    exp = aten.exp.default(gather)
    return exp


def kernel(index_1, x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((300, 1999), (2048, 1), dtype=torch.float16, device=index_1.device)
    grid = (triton.cdiv(599700, XBLOCK),)
    fused_kernel[grid](index_1, x_1, out_ptr0, 599700, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
