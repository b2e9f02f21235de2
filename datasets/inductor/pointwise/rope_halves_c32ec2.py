"""Pointwise by Inductor: of rope_halves, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 16384
    xnumel = 64
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x3 = xindex
    y4 = yindex
    y1 = ((yindex // 8) % 512)
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[16384, 64], strides=[64, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[1])
    tmp1 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr1, shape=[512, 64], strides=[64, 1], block_shape=[((512) * ((512) <= ((7 + YBLOCK) // 8)) + ((7 + YBLOCK) // 8) * (((7 + YBLOCK) // 8) < (512))), XBLOCK], order=[1, 0], offsets=[((yoffset // 8) % 512), xoffset]), boundary_check=[1], eviction_policy='evict_last')[None, :, None, None, :], [(4095 + YBLOCK) // 4096, ((512) * ((512) <= ((7 + YBLOCK) // 8)) + ((7 + YBLOCK) // 8) * (((7 + YBLOCK) // 8) < (512))), ((1) * ((1) <= ((7 + YBLOCK) // 8)) + ((7 + YBLOCK) // 8) * (((7 + YBLOCK) // 8) < (1))), ((8) * ((8) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (8))), XBLOCK]), [YBLOCK, XBLOCK])
    tmp19 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr2, shape=[512, 64], strides=[64, 1], block_shape=[((512) * ((512) <= ((7 + YBLOCK) // 8)) + ((7 + YBLOCK) // 8) * (((7 + YBLOCK) // 8) < (512))), XBLOCK], order=[1, 0], offsets=[((yoffset // 8) % 512), xoffset]), boundary_check=[1], eviction_policy='evict_last')[None, :, None, None, :], [(4095 + YBLOCK) // 4096, ((512) * ((512) <= ((7 + YBLOCK) // 8)) + ((7 + YBLOCK) // 8) * (((7 + YBLOCK) // 8) < (512))), ((1) * ((1) <= ((7 + YBLOCK) // 8)) + ((7 + YBLOCK) // 8) * (((7 + YBLOCK) // 8) < (1))), ((8) * ((8) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (8))), XBLOCK]), [YBLOCK, XBLOCK])
    tmp2 = tmp0 * tmp1
    tmp3 = (x3).to(tl.int32)
    tmp4 = tl.full([1, 1], 0, tl.int64)
    tmp5 = tmp3 >= tmp4
    tmp6 = (x3).to(tl.int64)
    tmp7 = (tmp6).to(tl.int64)
    tmp8 = tl.full([1, 1], 32, tl.int64)
    tmp9 = tmp7 < tmp8
    tmp10 = tl.load(in_ptr0 + (32 + 64*y4 + (x3)), tmp9 & xmask, eviction_policy='evict_last', other=0.0)
    tmp11 = -tmp10
    tmp12 = tl.full(tmp11.shape, 0.0, tmp11.dtype)
    tmp13 = tl.where(tmp9, tmp11, tmp12)
    tmp14 = tmp3 >= tmp8
    tmp15 = tl.full([1, 1], 64, tl.int64)
    tmp16 = tmp3 < tmp15
    tmp17 = tl.load(in_ptr0 + (64*y4 + ((-32) + x3)), tmp14 & xmask, eviction_policy='evict_last', other=0.0)
    tmp18 = tl.where(tmp9, tmp13, tmp17)
    tmp20 = tmp18 * tmp19
    tmp21 = tmp2 + tmp20
    tl.store(tl.make_block_ptr(out_ptr0, shape=[16384, 64], strides=[64, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp21, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((4, 512, 8, 64), dtype=torch.float32, device=device)
    cos_1 = torch.randn((512, 64), dtype=torch.float32, device=device)
    sin_1 = torch.randn((512, 64), dtype=torch.float32, device=device)
    return (x_1, cos_1, sin_1,)


def reference(x_1, cos_1, sin_1):
    unsqueeze = aten.unsqueeze.default(cos_1, 0)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 2)
    mul = aten.mul.Tensor(x_1, unsqueeze_1)
    slice_1 = aten.slice.Tensor(x_1, 3, 32, 9223372036854775807)
    neg = aten.neg.default(slice_1)
    slice_2 = aten.slice.Tensor(x_1, 3, 0, 32)
    cat = aten.cat.default([neg, slice_2], -1)
    unsqueeze_2 = aten.unsqueeze.default(sin_1, 0)
    unsqueeze_3 = aten.unsqueeze.default(unsqueeze_2, 2)
    mul_1 = aten.mul.Tensor(cat, unsqueeze_3)
    add = aten.add.Tensor(mul, mul_1)
    return add


def kernel(x_1, cos_1, sin_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((4, 512, 8, 64), (262144, 512, 64, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(64, XBLOCK), triton.cdiv(16384, YBLOCK),)
    fused_kernel[grid](x_1, cos_1, sin_1, out_ptr0, 16384, 64, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
