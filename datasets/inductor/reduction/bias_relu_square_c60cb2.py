"""Reduction by Inductor: of bias_relu_square, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "R0_BLOCK": [16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.2}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 3000
    r0_numel = 515
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last')
    _tmp13 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (x0 + 3000*r0_1), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp2 = tmp0 + tmp1
        tmp3 = tl.full([1, 1], 0, tl.int32)
        tmp4 = triton_helpers.maximum(tmp3, tmp2)
        tmp5 = tmp4 * tmp4
        tmp6 = tl.full([1, 1], 0.0, tl.float32)
        tmp7 = tmp4 <= tmp6
        tmp8 = tl.full([1, 1], 2.0, tl.float32)
        tmp9 = tmp4 * tmp8
        tmp10 = tmp5 * tmp9
        tmp11 = tl.where(tmp7, tmp6, tmp10)
        tmp12 = tl.broadcast_to(tmp11, [XBLOCK, R0_BLOCK])
        tmp14 = _tmp13 + tmp12
        _tmp13 = tl.where(r0_mask & xmask, tmp14, _tmp13)
        tl.store(out_ptr0 + (x0 + 3008*r0_1), tmp5, r0_mask & xmask)
        tl.store(out_ptr1 + (x0 + 3008*r0_1), tmp11, r0_mask & xmask)
    tmp13 = tl.sum(_tmp13, 1)[:, None]
    tl.store(out_ptr2 + (x0), tmp13, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    arg0_1 = torch.randn((515, 3000), dtype=torch.float32, device=device)
    arg1_1 = torch.randn((3000,), dtype=torch.float32, device=device)
    return (arg0_1, arg1_1,)


def reference(arg0_1, arg1_1):
    add = aten.add.Tensor(arg0_1, arg1_1)
    relu = aten.relu.default(add)
    pow_1 = aten.pow.Tensor_Scalar(relu, 2)
    le = aten.le.Scalar(relu, 0)
    scalar_tensor = aten.scalar_tensor.default(0, dtype=torch.float32, device=arg0_1.device)
    pow_2 = aten.pow.Tensor_Scalar(relu, 1.0)
    mul = aten.mul.Scalar(pow_2, 2.0)
    mul_1 = aten.mul.Tensor(pow_1, mul)
    where = aten.where.self(le, scalar_tensor, mul_1)
    sum_1 = aten.sum.dim_IntList(where, [0], True)
    return pow_1, where, sum_1


def kernel(arg0_1, arg1_1, *, XBLOCK=16, R0_BLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((515, 3000), (3008, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((515, 3000), (3008, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr2 = torch.empty_strided((1, 3000), (3000, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(3000, XBLOCK),)
    fused_kernel[grid](arg0_1, arg1_1, out_ptr0, out_ptr1, out_ptr2, 3000, 515, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1, out_ptr2
