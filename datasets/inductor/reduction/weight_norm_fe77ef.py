"""Reduction by Inductor: of weight_norm, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 2e-06}


@triton.jit
def fused_kernel(in_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 1024
    r0_numel = 2048
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    block_ptr0 = tl.make_block_ptr(in_ptr0, shape=[1024, 2048], strides=[1, 1024], block_shape=[XBLOCK, R0_BLOCK], order=[0, 1], offsets=[xoffset, 0])
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(block_ptr0, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_last')
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
        block_ptr0 = tl.advance(block_ptr0, [0, R0_BLOCK])
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    block_ptr1 = tl.make_block_ptr(in_ptr0, shape=[1024, 2048], strides=[1, 1024], block_shape=[XBLOCK, R0_BLOCK], order=[0, 1], offsets=[xoffset, 0])
    block_ptr2 = tl.make_block_ptr(out_ptr1, shape=[1024, 2048], strides=[1, 1024], block_shape=[XBLOCK, R0_BLOCK], order=[0, 1], offsets=[xoffset, 0])
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp5 = tl.load(block_ptr1, boundary_check=[0, 1], padding_option='zero', eviction_policy='evict_first')
        tmp6 = tl.sqrt_rn(tmp3)
        tmp7 = (tmp5 / tmp6)
        tl.store(block_ptr2, tl.broadcast_to(tmp7, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])
        block_ptr0 = tl.advance(block_ptr0, [0, R0_BLOCK])
        block_ptr1 = tl.advance(block_ptr1, [0, R0_BLOCK])
        block_ptr2 = tl.advance(block_ptr2, [0, R0_BLOCK])


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    v_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (v_1,)


def reference(v_1):
    pow_1 = aten.pow.Tensor_Scalar(v_1, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [0], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    div = aten.div.Tensor(v_1, pow_2)
    return div


def kernel(v_1, *, XBLOCK=8, R0_BLOCK=64, num_warps=4, num_stages=1):
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=v_1.device)
    grid = (triton.cdiv(1024, XBLOCK),)
    fused_kernel[grid](v_1, out_ptr1, 1024, 2048, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
