"""Pointwise by Inductor: of unpack_nibbles, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0003}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 1024
    xnumel = 2048
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp26 = tl.load(tl.make_block_ptr(in_ptr1, shape=[1024], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), eviction_policy='evict_last')[:, None]
    tmp0 = ((x1 % 2)).to(tl.int32)
    tmp1 = tl.full([1, 1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = ((x1 % 2)).to(tl.int64)
    tmp4 = (tmp3).to(tl.int64)
    tmp5 = tl.full([1, 1], 1, tl.int64)
    tmp6 = tmp4 < tmp5
    tmp7 = tl.load(in_ptr0 + (1024*y0 + (x1 // 2)), tmp6 & xmask, eviction_policy='evict_last', other=0.0)
    tmp8 = tl.full([1, 1], 15, tl.int64)
    tmp9 = tmp7 & tmp8
    tmp10 = tl.full(tmp9.shape, 0.0, tmp9.dtype)
    tmp11 = tl.where(tmp6, tmp9, tmp10)
    tmp12 = tmp0 >= tmp5
    tmp13 = tl.full([1, 1], 2, tl.int64)
    tmp14 = tmp0 < tmp13
    tmp15 = tl.load(in_ptr0 + (1024*y0 + (x1 // 2)), tmp12 & xmask, eviction_policy='evict_last', other=0.0)
    tmp16 = tl.full([1, 1], 4, tl.int64)
    tmp17 = tmp15 >> tmp16
    tmp18 = tl.full([1, 1], 15, tl.int64)
    tmp19 = tmp17 & tmp18
    tmp20 = tl.full(tmp19.shape, 0.0, tmp19.dtype)
    tmp21 = tl.where(tmp12, tmp19, tmp20)
    tmp22 = tl.where(tmp6, tmp11, tmp21)
    tmp23 = tl.full([1, 1], 8, tl.int64)
    tmp24 = tmp22 - tmp23
    tmp25 = tmp24.to(tl.float32)
    tmp27 = tmp25 * tmp26
    tl.store(tl.make_block_ptr(out_ptr0, shape=[1024, 2048], strides=[2048, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp27, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    q_1 = torch.randint(0, 256, (1024, 1024), dtype=torch.int64, device=device)
    scale_1 = torch.empty((1024, 1), dtype=torch.float32, device=device).normal_(0.0439, 0.989)
    return (q_1, scale_1,)


def reference(q_1, scale_1):
    bitwise_and = aten.bitwise_and.Scalar(q_1, 15)
    unsqueeze = aten.unsqueeze.default(bitwise_and, 2)
    rshift = aten.__rshift__.Scalar(q_1, 4)
    bitwise_and_1 = aten.bitwise_and.Scalar(rshift, 15)
    unsqueeze_1 = aten.unsqueeze.default(bitwise_and_1, 2)
    cat = aten.cat.default([unsqueeze, unsqueeze_1], -1)
    view = aten.reshape.default(cat, [1024, 2048])
    sub = aten.sub.Tensor(view, 8)
    convert_element_type = sub.to(torch.float32)
    mul = aten.mul.Tensor(convert_element_type, scale_1)
    return mul


def kernel(q_1, scale_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 2048), (2048, 1), dtype=torch.float32, device=q_1.device)
    grid = (triton.cdiv(2048, XBLOCK), triton.cdiv(1024, YBLOCK),)
    fused_kernel[grid](q_1, scale_1, out_ptr0, 1024, 2048, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
