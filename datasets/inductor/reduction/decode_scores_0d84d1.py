"""Reduction by Inductor: of decode_scores, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "R0_BLOCK": [16, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 2e-07}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 512
    r0_numel = 512
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = (xindex % 8)
    x1 = xindex // 8
    block_ptr0 = tl.make_block_ptr(in_ptr0, shape=[64, 8, 512], strides=[4096, 1, 8], block_shape=[(7 + XBLOCK) // 8, ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK], order=[1, 2, 0], offsets=[xoffset // 8, (xoffset % 8), 0])
    _tmp4_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp4_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    x3 = xindex
    _tmp9_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp9_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp0 = tl.reshape(tl.load(block_ptr0, boundary_check=[0, 2], padding_option='zero', eviction_policy='evict_last'), [XBLOCK, R0_BLOCK])
        tmp6 = tl.reshape(tl.broadcast_to(tl.load(block_ptr0, boundary_check=[0, 2], padding_option='zero', eviction_policy='evict_last')[:, None, :, :], [(7 + XBLOCK) // 8, ((1) * ((1) <= ((7 + XBLOCK) // 8)) + ((7 + XBLOCK) // 8) * (((7 + XBLOCK) // 8) < (1))), ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK]), [XBLOCK, R0_BLOCK])
        tmp1 = tl.full([1, 1], 0.125, tl.float32)
        tmp2 = tmp0 * tmp1
        tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])

        _tmp4_max_next, _tmp4_sum_next = triton_helpers.online_softmax_combine(
            _tmp4_max, _tmp4_sum, tmp3, False
        )

        _tmp4_max = tl.where(r0_mask & xmask, _tmp4_max_next, _tmp4_max)
        _tmp4_sum = tl.where(r0_mask & xmask, _tmp4_sum_next, _tmp4_sum)
        tmp7 = tmp6 * tmp1
        tmp8 = tl.broadcast_to(tmp7, [XBLOCK, R0_BLOCK])

        _tmp9_max_next, _tmp9_sum_next = triton_helpers.online_softmax_combine(
            _tmp9_max, _tmp9_sum, tmp8, False
        )

        _tmp9_max = tl.where(r0_mask & xmask, _tmp9_max_next, _tmp9_max)
        _tmp9_sum = tl.where(r0_mask & xmask, _tmp9_sum_next, _tmp9_sum)
        block_ptr0 = tl.advance(block_ptr0, [0, 0, R0_BLOCK])

    tmp4, tmp5 = triton_helpers.online_softmax_reduce(
        _tmp4_max, _tmp4_sum, 1, False)
    tmp4 = tmp4[:, None]
    tmp5 = tmp5[:, None]

    tmp9, tmp10 = triton_helpers.online_softmax_reduce(
        _tmp9_max, _tmp9_sum, 1, False)
    tmp9 = tmp9[:, None]
    tmp10 = tmp10[:, None]
    block_ptr1 = tl.make_block_ptr(in_ptr0, shape=[64, 8, 512], strides=[4096, 1, 8], block_shape=[(7 + XBLOCK) // 8, ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK], order=[1, 2, 0], offsets=[xoffset // 8, (xoffset % 8), 0])
    block_ptr2 = tl.make_block_ptr(out_ptr2, shape=[64, 8, 512], strides=[4096, 1, 8], block_shape=[(7 + XBLOCK) // 8, ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK], order=[1, 2, 0], offsets=[xoffset // 8, (xoffset % 8), 0])
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp11 = tl.reshape(tl.broadcast_to(tl.load(block_ptr1, boundary_check=[0, 2], padding_option='zero', eviction_policy='evict_first')[:, None, :, :], [(7 + XBLOCK) // 8, ((1) * ((1) <= ((7 + XBLOCK) // 8)) + ((7 + XBLOCK) // 8) * (((7 + XBLOCK) // 8) < (1))), ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK]), [XBLOCK, R0_BLOCK])
        tmp12 = tl.full([1, 1], 0.125, tl.float32)
        tmp13 = tmp11 * tmp12
        tmp14 = tmp13 - tmp4
        tmp15 = libdevice.exp(tmp14)
        tmp16 = (tmp15 / tmp10)
        tl.store(block_ptr2, tl.reshape(tl.broadcast_to(tl.reshape(tl.broadcast_to(tmp16, [XBLOCK, R0_BLOCK]), [(7 + XBLOCK) // 8, 1, ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK]), [(7 + XBLOCK) // 8, ((1) * ((1) <= ((7 + XBLOCK) // 8)) + ((7 + XBLOCK) // 8) * (((7 + XBLOCK) // 8) < (1))), ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK]), [(7 + XBLOCK) // 8, ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK]).to(tl.float32), boundary_check=[0, 2])
        block_ptr0 = tl.advance(block_ptr0, [0, 0, R0_BLOCK])
        block_ptr1 = tl.advance(block_ptr1, [0, 0, R0_BLOCK])
        block_ptr2 = tl.advance(block_ptr2, [0, 0, R0_BLOCK])


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_1 = torch.empty((64, 512, 8), dtype=torch.float32, device=device).normal_(-0.0145, 8.03)
    return (sum_1,)


def reference(sum_1):
    mul_1 = aten.mul.Tensor(sum_1, 0.125)
    prepare_softmax_online_default = mul_1.amax(1, keepdim=True), (mul_1 - mul_1.amax(1, keepdim=True)).exp().sum(1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(mul_1, getitem)
    exp_default = aten.exp.default(sub_tensor)
    div = aten.div.Tensor(exp_default, getitem_1)
    return div


def kernel(sum_1, *, XBLOCK=4, R0_BLOCK=64, num_warps=2, num_stages=1):
    out_ptr2 = torch.empty_strided((64, 512, 8), (4096, 8, 1), dtype=torch.float32, device=sum_1.device)
    grid = (triton.cdiv(512, XBLOCK),)
    fused_kernel[grid](sum_1, out_ptr2, 512, 512, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
