"""Pointwise by Inductor: of outer_difference, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 4e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 1500
    xnumel = 1400
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    y0 = yindex
    x1 = xindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[1500], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), boundary_check=[0], eviction_policy='evict_last')[:, None]
    tmp1 = tl.load(tl.make_block_ptr(in_ptr1, shape=[1400], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0], eviction_policy='evict_last')[None, :]
    tmp2 = tmp0 - tmp1
    tmp3 = tmp2 * tmp2
    tmp4 = -tmp3
    tmp5 = libdevice.exp(tmp4)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[1500, 1400], strides=[1408, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp5, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2100000 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.empty((1500, 1), dtype=torch.float32, device=device).normal_(0.0432, 1.03)
    y_1 = torch.empty((1, 1400), dtype=torch.float32, device=device).normal_(-0.0226, 0.973)
    return (x_1, y_1,)


def reference(x_1, y_1):
    sub = aten.sub.Tensor(x_1, y_1)
    pow_1 = aten.pow.Tensor_Scalar(sub, 2)
    neg = aten.neg.default(pow_1)
    exp = aten.exp.default(neg)
    return exp


def kernel(x_1, y_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1500, 1400), (1408, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1400, XBLOCK), triton.cdiv(1500, YBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr0, 1500, 1400, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
