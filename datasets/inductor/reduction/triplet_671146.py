"""Reduction by Inductor: of triplet, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "R0_BLOCK": [16, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.003}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 2048
    r0_numel = 512
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    _tmp5 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    _tmp11 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.load(in_ptr1 + (r0_1 + 512*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp7 = tl.load(in_ptr2 + (r0_1 + 512*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp2 = tmp0 - tmp1
        tmp3 = tmp2 * tmp2
        tmp4 = tl.broadcast_to(tmp3, [XBLOCK, R0_BLOCK])
        tmp6 = _tmp5 + tmp4
        _tmp5 = tl.where(r0_mask & xmask, tmp6, _tmp5)
        tmp8 = tmp0 - tmp7
        tmp9 = tmp8 * tmp8
        tmp10 = tl.broadcast_to(tmp9, [XBLOCK, R0_BLOCK])
        tmp12 = _tmp11 + tmp10
        _tmp11 = tl.where(r0_mask & xmask, tmp12, _tmp11)
    tmp5 = tl.sum(_tmp5, 1)[:, None]
    tmp11 = tl.sum(_tmp11, 1)[:, None]
    tmp13 = tmp5 - tmp11
    tmp14 = tl.full([1, 1], 1.0, tl.float32)
    tmp15 = tmp13 + tmp14
    tmp16 = tl.full([1, 1], 0, tl.int32)
    tmp17 = triton_helpers.maximum(tmp16, tmp15)
    tl.store(out_ptr2 + (x0), tmp17, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    a_1 = torch.randn((2048, 512), dtype=torch.float32, device=device)
    p_1 = torch.randn((2048, 512), dtype=torch.float32, device=device)
    n_1 = torch.randn((2048, 512), dtype=torch.float32, device=device)
    return (a_1, p_1, n_1,)


def reference(a_1, p_1, n_1):
    sub = aten.sub.Tensor(a_1, p_1)
    pow_1 = aten.pow.Tensor_Scalar(sub, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1])
    sub_1 = aten.sub.Tensor(a_1, n_1)
    pow_2 = aten.pow.Tensor_Scalar(sub_1, 2)
    sum_2 = aten.sum.dim_IntList(pow_2, [1])
    sub_2 = aten.sub.Tensor(sum_1, sum_2)
    add = aten.add.Tensor(sub_2, 1.0)
    relu = aten.relu.default(add)
    return relu


def kernel(a_1, p_1, n_1, *, XBLOCK=2, R0_BLOCK=512, num_warps=4, num_stages=1):
    out_ptr2 = torch.empty_strided((2048,), (1,), dtype=torch.float32, device=a_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](a_1, p_1, n_1, out_ptr2, 2048, 512, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
