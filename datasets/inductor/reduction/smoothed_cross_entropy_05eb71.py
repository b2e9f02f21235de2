"""Reduction by Inductor: of smoothed_cross_entropy, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0009}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 1024
    r0_numel = 4096
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    block_ptr0 = tl.make_block_ptr(in_ptr0, shape=[1024, 4096], strides=[4096, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, 0])
    _tmp2_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp2_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(block_ptr0, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_last')
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])

        _tmp2_max_next, _tmp2_sum_next = triton_helpers.online_softmax_combine(
            _tmp2_max, _tmp2_sum, tmp1, False
        )

        _tmp2_max = tl.where(r0_mask & xmask, _tmp2_max_next, _tmp2_max)
        _tmp2_sum = tl.where(r0_mask & xmask, _tmp2_sum_next, _tmp2_sum)
        block_ptr0 = tl.advance(block_ptr0, [0, R0_BLOCK])

    tmp2, tmp3 = triton_helpers.online_softmax_reduce(
        _tmp2_max, _tmp2_sum, 1, False)
    tmp2 = tmp2[:, None]
    tmp3 = tmp3[:, None]
    block_ptr1 = tl.make_block_ptr(in_ptr0, shape=[1024, 4096], strides=[4096, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, 0])
    _tmp9 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp4 = tl.load(block_ptr1, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_last')
        tmp5 = tmp4 - tmp2
        tmp6 = tl_math.log(tmp3)
        tmp7 = tmp5 - tmp6
        tmp8 = tl.broadcast_to(tmp7, [XBLOCK, R0_BLOCK])
        tmp10 = _tmp9 + tmp8
        _tmp9 = tl.where(r0_mask & xmask, tmp10, _tmp9)
        block_ptr0 = tl.advance(block_ptr0, [0, R0_BLOCK])
        block_ptr1 = tl.advance(block_ptr1, [0, R0_BLOCK])
    tmp9 = tl.sum(_tmp9, 1)[:, None]
    tmp11 = tl.load(tl.make_block_ptr(in_ptr1, shape=[1024], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0])[:, None]
    tmp12 = tl.full([1, 1], -100, tl.int64)
    tmp13 = tmp11 == tmp12
    tmp14 = -tmp9
    tmp15 = tl.full([1, 1], 0.0, tl.float32)
    tmp16 = tl.where(tmp13, tmp15, tmp14)
    tmp17 = tmp11 != tmp12
    tmp18 = tl.full([1, 1], 0, tl.int64)
    tmp19 = tl.where(tmp17, tmp11, tmp18)
    tl.device_assert(((0 <= tmp19) & (tmp19 < 4096)) | ~(xmask), "index out of bounds: 0 <= tmp19 < 4096")
    tmp21 = tl.load(in_ptr0 + (tmp19 + 4096*x0), xmask, eviction_policy='evict_last')
    tmp22 = tmp21 - tmp2
    tmp23 = tl_math.log(tmp3)
    tmp24 = tmp22 - tmp23
    tmp25 = -tmp24
    tmp26 = tl.where(tmp17, tmp25, tmp15)
    tmp27 = tl.full([1, 1], 0.9, tl.float32)
    tmp28 = tmp26 * tmp27
    tmp29 = tl.full([1, 1], 2.44140625e-05, tl.float32)
    tmp30 = tmp16 * tmp29
    tmp31 = tmp28 + tmp30
    tl.store(tl.make_block_ptr(out_ptr4, shape=[1024], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp31, [XBLOCK, 1]), [XBLOCK]).to(tl.float32), boundary_check=[0])


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((1024, 4096), dtype=torch.float32, device=device)
    target_1 = torch.randint(2, 4092, (1024,), dtype=torch.int64, device=device)
    return (x_1, target_1,)


def reference(x_1, target_1):
    ne_1 = aten.ne.Scalar(target_1, -100)
    prepare_softmax_online_default = x_1.amax(1, keepdim=True), (x_1 - x_1.amax(1, keepdim=True)).exp().sum(1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(x_1, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    ne = aten.ne.Scalar(target_1, -100)
    scalar_tensor = aten.scalar_tensor.default(0, dtype=torch.int64, device=x_1.device)
    where = aten.where.self(ne, target_1, scalar_tensor)
    unsqueeze = aten.unsqueeze.default(where, 1)
    gather = aten.gather.default(sub_1, 1, unsqueeze)
    squeeze = aten.squeeze.dim(gather, 1)
    neg = aten.neg.default(squeeze)
    scalar_tensor_1 = aten.scalar_tensor.default(0, dtype=torch.float32, device=x_1.device)
    where_1 = aten.where.self(ne_1, neg, scalar_tensor_1)
    eq = aten.eq.Scalar(target_1, -100)
    scalar_tensor_2 = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=x_1.device)
    sum_2 = aten.sum.dim_IntList(sub_1, [1])
    neg_1 = aten.neg.default(sum_2)
    where_2 = aten.where.self(eq, scalar_tensor_2, neg_1)
    copy_ = aten.copy_.default(neg_1, where_2)
    mul = aten.mul.Scalar(copy_, 2.44140625e-05)
    mul_1 = aten.mul.Scalar(where_1, 0.9)
    add = aten.add.Tensor(mul_1, mul)
    return add


def kernel(x_1, target_1, *, XBLOCK=1, R0_BLOCK=4096, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((1024,), (1,), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(1024, XBLOCK),)
    fused_kernel[grid](x_1, target_1, out_ptr4, 1024, 4096, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4
