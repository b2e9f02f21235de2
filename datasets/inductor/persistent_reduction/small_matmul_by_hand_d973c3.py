"""Persistent reduction by Inductor: of small_matmul_by_hand, float16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.2}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 2541
    r0_numel = 700
    R0_BLOCK: tl.constexpr = 1024
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
    x1 = xindex // 77
    x0 = (xindex % 77)
    x3 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_2 + 700*x1), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (r0_2 + 700*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp5 = tl.where(r0_mask & xmask, tmp3, 0)
    tmp6 = tl.sum(tmp5, 1)[:, None].to(tl.float32)
    tl.store(out_ptr0 + (x3), tmp6, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((33, 700), dtype=torch.float16, device=device)
    y_1 = torch.randn((77, 700), dtype=torch.float16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    unsqueeze = aten.unsqueeze.default(x_1, 1)
    unsqueeze_1 = aten.unsqueeze.default(y_1, 0)
    unsqueeze = unsqueeze.float()
    unsqueeze_1 = unsqueeze_1.float()
    mul = aten.mul.Tensor(unsqueeze, unsqueeze_1)
    sum_1 = aten.sum.dim_IntList(mul, [-1])
    return sum_1.to(torch.float16)


def kernel(x_1, y_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr0 = torch.empty_strided((33, 77), (77, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(2541, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr0, 2541, 700, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
