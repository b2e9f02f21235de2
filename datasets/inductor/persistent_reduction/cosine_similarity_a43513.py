"""Persistent reduction by Inductor: of cosine_similarity, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3e-06}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 2048
    r0_numel = 1024
    R0_BLOCK: tl.constexpr = 1024
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = tl.full([R0_BLOCK], True, tl.int1)[None, :]
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp6 = tl.load(tl.make_block_ptr(in_ptr1, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
    tmp1 = tmp0 * tmp0
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4 = tl.where(xmask, tmp2, 0)
    tmp5 = tl.sum(tmp4, 1)[:, None].to(tl.float32)
    tmp7 = tmp6 * tmp6
    tmp8 = tl.broadcast_to(tmp7, [XBLOCK, R0_BLOCK])
    tmp10 = tl.where(xmask, tmp8, 0)
    tmp11 = tl.sum(tmp10, 1)[:, None].to(tl.float32)
    tmp12 = tl.sqrt_rn(tmp11)
    tmp13 = tl.full([1, 1], 1e-08, tl.float32)
    tmp14 = triton_helpers.maximum(tmp12, tmp13)
    tmp15 = tl.sqrt_rn(tmp5)
    tmp16 = triton_helpers.maximum(tmp15, tmp13)
    tmp17 = (tmp6 / tmp14)
    tmp18 = (tmp0 / tmp16)
    tmp19 = tmp17 * tmp18
    tmp20 = tl.broadcast_to(tmp19, [XBLOCK, R0_BLOCK])
    tmp22 = tl.where(xmask, tmp20, 0)
    tmp23 = tl.sum(tmp22, 1)[:, None].to(tl.float32)
    tl.store(tl.make_block_ptr(out_ptr4, shape=[2048], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp23, [XBLOCK, 1]), [XBLOCK]).to(tl.float32), boundary_check=[0])


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    y_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    x_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (y_1, x_1,)


def reference(y_1, x_1):
    pow_3 = aten.pow.Tensor_Scalar(y_1, 2)
    sum_2 = aten.sum.dim_IntList(pow_3, [1], True)
    pow_4 = aten.pow.Tensor_Scalar(sum_2, 0.5)
    pow_1 = aten.pow.Tensor_Scalar(x_1, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    scalar_tensor = aten.scalar_tensor.default(1e-08, dtype=torch.float32, device=y_1.device)
    clamp_min = aten.clamp_min.Tensor(pow_2, scalar_tensor)
    copy_ = aten.copy_.default(pow_2, clamp_min)
    clamp_min_1 = aten.clamp_min.Tensor(pow_4, scalar_tensor)
    copy__1 = aten.copy_.default(pow_4, clamp_min_1)
    div = aten.div.Tensor(y_1, copy__1)
    div_1 = aten.div.Tensor(x_1, copy_)
    mul = aten.mul.Tensor(div_1, div)
    sum_3 = aten.sum.dim_IntList(mul, [1])
    return sum_3


def kernel(y_1, x_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr4 = torch.empty_strided((2048,), (1,), dtype=torch.float32, device=y_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](y_1, x_1, out_ptr4, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr4
