"""Pointwise by Inductor: of convolution_norm_residual, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4],
    "XBLOCK": [1, 2, 4, 8],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, out_ptr0, out_ptr1, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 4
    xnumel = 8
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp1 = tl.load(tl.make_block_ptr(in_ptr1, shape=[8], strides=[4], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0], eviction_policy='evict_last')[None, :]
    tmp3 = tl.load(tl.make_block_ptr(in_ptr0 + (1), shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp4 = tl.load(tl.make_block_ptr(in_ptr1 + (1), shape=[8], strides=[4], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0], eviction_policy='evict_last')[None, :]
    tmp7 = tl.load(tl.make_block_ptr(in_ptr0 + (2), shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp8 = tl.load(tl.make_block_ptr(in_ptr1 + (2), shape=[8], strides=[4], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0], eviction_policy='evict_last')[None, :]
    tmp11 = tl.load(tl.make_block_ptr(in_ptr0 + (3), shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp12 = tl.load(tl.make_block_ptr(in_ptr1 + (3), shape=[8], strides=[4], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0], eviction_policy='evict_last')[None, :]
    tmp15 = tl.load(tl.make_block_ptr(in_ptr2, shape=[4, 8], strides=[8, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1])
    tmp17 = tl.load(tl.make_block_ptr(in_ptr3, shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp19 = tl.load(tl.make_block_ptr(in_ptr3 + (1), shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp22 = tl.load(tl.make_block_ptr(in_ptr3 + (2), shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp25 = tl.load(tl.make_block_ptr(in_ptr3 + (3), shape=[4, 8], strides=[32, 4], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1], eviction_policy='evict_last')
    tmp2 = tmp0 * tmp1
    tmp5 = tmp3 * tmp4
    tmp6 = tmp2 + tmp5
    tmp9 = tmp7 * tmp8
    tmp10 = tmp6 + tmp9
    tmp13 = tmp11 * tmp12
    tmp14 = tmp10 + tmp13
    tmp16 = tmp14 * tmp15
    tmp18 = tmp17 * tmp1
    tmp20 = tmp19 * tmp4
    tmp21 = tmp18 + tmp20
    tmp23 = tmp22 * tmp8
    tmp24 = tmp21 + tmp23
    tmp26 = tmp25 * tmp12
    tmp27 = tmp24 + tmp26
    tmp28 = tmp16 - tmp27
    tl.store(tl.make_block_ptr(out_ptr0, shape=[4, 8], strides=[8, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp14, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])
    tl.store(tl.make_block_ptr(out_ptr1, shape=[4, 8], strides=[8, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp28, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_2 = torch.empty((4, 32), dtype=torch.float32, device=device).normal_(214, 246)
    arg2_1 = torch.empty((32,), dtype=torch.float32, device=device).normal_(-0.0796, 0.966)
    getitem_1 = torch.empty((4, 8, 1, 1), dtype=torch.float32, device=device).normal_(0.0892, 0.211)
    sum_1 = torch.empty((4, 32), dtype=torch.float32, device=device).normal_(-309, 7.57e+03)
    return (sum_2, arg2_1, getitem_1, sum_1,)


def reference(sum_2, arg2_1, getitem_1, sum_1):
    unsqueeze_5 = aten.unsqueeze.default(arg2_1, 0)
    mul_8 = aten.mul.Tensor(sum_2, unsqueeze_5)
    view_5 = aten.reshape.default(mul_8, [4, 8, 4])
    sum_4 = aten.sum.dim_IntList(view_5, [2])
    squeeze = aten.squeeze.dims(getitem_1, [2, 3])
    mul_10 = aten.mul.Tensor(sum_4, squeeze)
    unsqueeze_4 = aten.unsqueeze.default(arg2_1, 0)
    mul_7 = aten.mul.Tensor(sum_1, unsqueeze_4)
    view_4 = aten.reshape.default(mul_7, [4, 8, 4])
    sum_3 = aten.sum.dim_IntList(view_4, [2])
    sub_1 = aten.sub.Tensor(mul_10, sum_3)
    return sum_4, sub_1


def kernel(sum_2, arg2_1, getitem_1, sum_1, *, YBLOCK=4, XBLOCK=8, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((4, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    out_ptr1 = torch.empty_strided((4, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    grid = (triton.cdiv(8, XBLOCK), triton.cdiv(4, YBLOCK),)
    fused_kernel[grid](sum_2, arg2_1, getitem_1, sum_1, out_ptr0, out_ptr1, 4, 8, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
