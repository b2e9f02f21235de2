"""Pointwise by Inductor: of group_norm_silu, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 512],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 5e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 512
    xnumel = 3136
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[512, 3136], strides=[3136, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1])
    tmp1 = tl.load(tl.make_block_ptr(in_ptr1, shape=[512], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), boundary_check=[0], eviction_policy='evict_last')[:, None]
    tmp3 = tl.load(tl.make_block_ptr(in_ptr2, shape=[512], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), boundary_check=[0], eviction_policy='evict_last')[:, None]
    tmp2 = tmp0 * tmp1
    tmp4 = tmp2 + tmp3
    tmp5 = -tmp4
    tmp6 = libdevice.exp(tmp5)
    tmp7 = tl.full([1, 1], 1.0, tl.float32)
    tmp8 = tmp6 + tmp7
    tmp9 = (tmp4 / tmp8)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[512, 3136], strides=[3136, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp9, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1605632 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((8, 64, 56, 56), dtype=torch.float32, device=device)
    mul = torch.empty((8, 16, 4, 1), dtype=torch.float32, device=device).normal_(0.101, 1.05)
    add_1 = torch.empty((8, 16, 4, 1), dtype=torch.float32, device=device).normal_(-0.00699, 1.04)
    return (x_1, mul, add_1,)


def reference(x_1, mul, add_1):
    as_strided = aten.as_strided.default(mul, [8, 64], [64, 1])
    unsqueeze = aten.unsqueeze.default(as_strided, 2)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 3)
    mul_2 = aten.mul.Tensor(x_1, unsqueeze_1)
    as_strided_1 = aten.as_strided.default(add_1, [8, 64], [64, 1])
    unsqueeze_2 = aten.unsqueeze.default(as_strided_1, 2)
    unsqueeze_3 = aten.unsqueeze.default(unsqueeze_2, 3)
    add_2 = aten.add.Tensor(mul_2, unsqueeze_3)
    neg_1 = aten.neg.default(add_2)
    exp = aten.exp.default(neg_1)
    add_3 = aten.add.Tensor(exp, 1)
    div = aten.div.Tensor(add_2, add_3)
    return div


def kernel(x_1, mul, add_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 64, 56, 56), (200704, 3136, 56, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(3136, XBLOCK), triton.cdiv(512, YBLOCK),)
    fused_kernel[grid](x_1, mul, add_1, out_ptr0, 512, 3136, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
