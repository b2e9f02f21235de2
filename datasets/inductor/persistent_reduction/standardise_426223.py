"""Persistent reduction by Inductor: of standardise, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 8e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
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
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(xmask, tmp1, 0)
    tmp4 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
    tmp6 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp8 = tl.where(xmask, tmp6, 0)
    tmp9 = tl.sum(tmp8, 1)[:, None].to(tl.float32)
    tmp10 = (tl.full([1, 1], 1024, tl.int32)).to(tl.float32)
    tmp11 = (tmp9 / tmp10)
    tmp12 = tmp1 - tmp11
    tmp13 = tmp12 * tmp12
    tmp14 = tl.broadcast_to(tmp13, [XBLOCK, R0_BLOCK])
    tmp16 = tl.where(xmask, tmp14, 0)
    tmp17 = tl.sum(tmp16, 1)[:, None].to(tl.float32)
    tmp18 = tl.full([1, 1], 1024.0, tl.float32)
    tmp19 = (tmp4 / tmp18)
    tmp20 = tmp0 - tmp19
    tmp21 = tl.full([1, 1], 1023.0, tl.float32)
    tmp22 = (tmp17 / tmp21)
    tmp23 = tl.sqrt_rn(tmp22)
    tmp24 = tl.full([1, 1], 1e-05, tl.float32)
    tmp25 = tmp23 + tmp24
    tmp26 = (tmp20 / tmp25)
    tl.store(tl.make_block_ptr(out_ptr2, shape=[2048, 1024], strides=[1024, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), tl.broadcast_to(tmp26, [XBLOCK, R0_BLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    mean = aten.mean.dim(x_1, [-1], True)
    sub = aten.sub.Tensor(x_1, mean)
    var = aten.var.correction(x_1, [-1], correction=1.0, keepdim=True)
    sqrt = aten.sqrt.default(var)
    add = aten.add.Tensor(sqrt, 1e-05)
    div = aten.div.Tensor(sub, add)
    return div


def kernel(x_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr2 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, 2048, 1024, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr2
