"""Pointwise by Inductor: of batch_norm_inference, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 512],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 6e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 512
    xnumel = 3136
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x2 = xindex
    y3 = yindex
    y0 = (yindex % 64)
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[512, 3136], strides=[3136, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1])
    tmp1 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr1, shape=[64], strides=[1], block_shape=[((64) * ((64) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (64)))], order=[0], offsets=[(yoffset % 64)]), eviction_policy='evict_last')[None, None, :, None], [(63 + YBLOCK) // 64, ((1) * ((1) <= ((63 + YBLOCK) // 64)) + ((63 + YBLOCK) // 64) * (((63 + YBLOCK) // 64) < (1))), ((64) * ((64) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (64))), XBLOCK]), [YBLOCK, XBLOCK])
    tmp3 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr2, shape=[64], strides=[1], block_shape=[((64) * ((64) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (64)))], order=[0], offsets=[(yoffset % 64)]), eviction_policy='evict_last')[None, None, :, None], [(63 + YBLOCK) // 64, ((1) * ((1) <= ((63 + YBLOCK) // 64)) + ((63 + YBLOCK) // 64) * (((63 + YBLOCK) // 64) < (1))), ((64) * ((64) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (64))), XBLOCK]), [YBLOCK, XBLOCK])
    tmp5 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr3, shape=[64], strides=[1], block_shape=[((64) * ((64) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (64)))], order=[0], offsets=[(yoffset % 64)]), eviction_policy='evict_last')[None, None, :, None], [(63 + YBLOCK) // 64, ((1) * ((1) <= ((63 + YBLOCK) // 64)) + ((63 + YBLOCK) // 64) * (((63 + YBLOCK) // 64) < (1))), ((64) * ((64) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (64))), XBLOCK]), [YBLOCK, XBLOCK])
    tmp2 = tmp0 - tmp1
    tmp4 = tmp2 * tmp3
    tmp6 = tmp4 + tmp5
    tmp7 = tl.full([1, 1], 0, tl.int32)
    tmp8 = triton_helpers.maximum(tmp7, tmp6)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[512, 3136], strides=[3136, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp8, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1605632 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((8, 64, 56, 56), dtype=torch.float32, device=device)
    mean_1 = torch.empty((64,), dtype=torch.float32, device=device).normal_(0.101, 1.05)
    w_1 = torch.empty((64,), dtype=torch.float32, device=device).normal_(-0.00682, 1.04)
    b_1 = torch.empty((64,), dtype=torch.float32, device=device).normal_(-0.176, 1.01)
    return (x_1, mean_1, w_1, b_1,)


def reference(x_1, mean_1, w_1, b_1):
    unsqueeze = aten.unsqueeze.default(mean_1, 1)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 2)
    sub = aten.sub.Tensor(x_1, unsqueeze_1)
    unsqueeze_2 = aten.unsqueeze.default(w_1, 1)
    unsqueeze_3 = aten.unsqueeze.default(unsqueeze_2, 2)
    mul = aten.mul.Tensor(sub, unsqueeze_3)
    unsqueeze_4 = aten.unsqueeze.default(b_1, 1)
    unsqueeze_5 = aten.unsqueeze.default(unsqueeze_4, 2)
    add = aten.add.Tensor(mul, unsqueeze_5)
    relu = aten.relu.default(add)
    return relu


def kernel(x_1, mean_1, w_1, b_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 64, 56, 56), (200704, 3136, 56, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(3136, XBLOCK), triton.cdiv(512, YBLOCK),)
    fused_kernel[grid](x_1, mean_1, w_1, b_1, out_ptr0, 512, 3136, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
