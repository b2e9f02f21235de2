"""Persistent reduction by Inductor: of group_norm, bfloat16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 3}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 64
    r0_numel = 8
    R0_BLOCK: tl.constexpr = 8
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_2 = r0_index
    x3 = xindex
    x0 = (xindex % 8)
    tmp0 = tl.load(in_ptr0 + (r0_2 + 8*x3), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
    tmp1 = tl.load(in_ptr1 + (r0_2 + 8*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp8 = tl.load(in_ptr2 + (r0_2 + 8*x3), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
    tmp2 = tmp1.to(tl.float32)
    tmp3 = tmp0 * tmp2
    tmp4 = tl.broadcast_to(tmp3, [XBLOCK, R0_BLOCK])
    tmp6 = tl.where(r0_mask & xmask, tmp4, 0)
    tmp7 = tl.sum(tmp6, 1)[:, None].to(tl.float32)
    tmp9 = tmp8 * tmp2
    tmp10 = tl.broadcast_to(tmp9, [XBLOCK, R0_BLOCK])
    tmp12 = tl.where(r0_mask & xmask, tmp10, 0)
    tmp13 = tl.sum(tmp12, 1)[:, None].to(tl.float32)
    tl.store(out_ptr0 + (x3), tmp7, xmask)
    tl.store(out_ptr1 + (x3), tmp13, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 8
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    sum_2 = torch.empty((8, 64), dtype=torch.float32, device=device).normal_(-22.6, 3.25e+03)
    arg1_1 = torch.empty((64,), dtype=torch.bfloat16, device=device).normal_(0.101, 1.05)
    sum_1 = torch.empty((8, 64), dtype=torch.float32, device=device).normal_(318, 3.27e+03)
    return (sum_2, arg1_1, sum_1,)


def reference(sum_2, arg1_1, sum_1):
    convert_element_type_8 = arg1_1.to(torch.float32)
    unsqueeze_5 = aten.unsqueeze.default(convert_element_type_8, 0)
    mul_5 = aten.mul.Tensor(sum_2, unsqueeze_5)
    view_6 = aten.reshape.default(mul_5, [8, 8, 8])
    sum_4 = aten.sum.dim_IntList(view_6, [2])
    unsqueeze_4 = aten.unsqueeze.default(convert_element_type_8, 0)
    mul_4 = aten.mul.Tensor(sum_1, unsqueeze_4)
    view_5 = aten.reshape.default(mul_4, [8, 8, 8])
    sum_3 = aten.sum.dim_IntList(view_5, [2])
    return sum_4, sum_3


def kernel(sum_2, arg1_1, sum_1, *, XBLOCK=1, num_warps=2, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    out_ptr1 = torch.empty_strided((8, 8), (8, 1), dtype=torch.float32, device=sum_2.device)
    grid = (triton.cdiv(64, XBLOCK),)
    fused_kernel[grid](sum_2, arg1_1, sum_1, out_ptr0, out_ptr1, 64, 8, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
