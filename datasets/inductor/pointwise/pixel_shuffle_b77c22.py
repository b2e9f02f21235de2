"""Pointwise by Inductor: of pixel_shuffle, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.004}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 691200
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 160)
    x1 = ((xindex // 160) % 160)
    x2 = xindex // 25600
    x3 = xindex
    tmp0 = tl.load(in_ptr0 + (80*(x1 // 2) + 6400*((x0 % 2)) + 12800*((x1 % 2)) + 25600*x2 + (x0 // 2)), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tl.full([1], 0, tl.int32)
    tmp2 = triton_helpers.maximum(tmp1, tmp0)
    tl.store(out_ptr0 + (x3), tmp2, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((3, 36, 80, 80), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    view = aten.reshape.default(x_1, [3, 9, 2, 2, 80, 80])
    permute = aten.permute.default(view, [0, 1, 4, 2, 5, 3])
    clone = aten.clone.default(permute, memory_format=torch.contiguous_format)
    view_1 = aten.reshape.default(clone, [3, 9, 160, 160])
    relu = aten.relu.default(view_1)
    return relu


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((3, 9, 160, 160), (230400, 25600, 160, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(691200, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 691200, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
