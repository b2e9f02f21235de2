"""Pointwise by Inductor: of heads_first, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.002}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2359296
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 64)
    x1 = ((xindex // 64) % 384)
    x2 = ((xindex // 24576) % 12)
    x3 = xindex // 294912
    x4 = xindex
    tmp0 = tl.load(in_ptr0 + (x0 + 64*x2 + 768*x1 + 294912*x3), None).to(tl.float32)
    tmp1 = tl.full([1], 0.125, tl.float32)
    tmp2 = tmp0 * tmp1
    tl.store(out_ptr0 + (x4), tmp2, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2359296 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((8, 384, 12, 64), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    mul = aten.mul.Tensor(x_1, 0.125)
    permute = aten.permute.default(mul, [0, 2, 1, 3])
    clone = aten.clone.default(permute, memory_format=torch.contiguous_format)
    return clone


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 12, 384, 64), (294912, 24576, 64, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2359296, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2359296, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
