"""Pointwise by Inductor: of heads_first, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 1e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 36864
    xnumel = 64
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x3 = xindex
    y0 = (yindex % 384)
    y1 = ((yindex // 384) % 12)
    y2 = yindex // 4608
    y4 = yindex
    tmp0 = tl.load(in_ptr0 + (x3 + 64*y1 + 768*y0 + 294912*y2), xmask)
    tmp1 = tl.full([1, 1], 0.125, tl.float32)
    tmp2 = tmp0 * tmp1
    tl.store(tl.make_block_ptr(out_ptr0, shape=[36864, 64], strides=[64, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp2, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2359296 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((8, 384, 12, 64), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    mul = aten.mul.Tensor(x_1, 0.125)
    permute = aten.permute.default(mul, [0, 2, 1, 3])
    clone = aten.clone.default(permute, memory_format=torch.contiguous_format)
    return clone


def kernel(x_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 12, 384, 64), (294912, 24576, 64, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(64, XBLOCK), triton.cdiv(36864, YBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 36864, 64, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
