"""Reduction by Inductor: of middle_mean, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "R0_BLOCK": [4, 16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 16384
    r0_numel = 128
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = tl.full([XBLOCK], True, tl.int1)[:, None]
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = (xindex % 256)
    x1 = xindex // 256
    block_ptr0 = tl.make_block_ptr(in_ptr0, shape=[64, 256, 128], strides=[32768, 1, 256], block_shape=[(255 + XBLOCK) // 256, ((256) * ((256) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (256))), R0_BLOCK], order=[1, 2, 0], offsets=[xoffset // 256, (xoffset % 256), 0])
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    x3 = xindex
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_2 = r0_index
        tmp0 = tl.reshape(tl.broadcast_to(tl.load(block_ptr0, boundary_check=[2], padding_option='zero', eviction_policy='evict_first')[:, None, :, :], [(255 + XBLOCK) // 256, ((1) * ((1) <= ((255 + XBLOCK) // 256)) + ((255 + XBLOCK) // 256) * (((255 + XBLOCK) // 256) < (1))), ((256) * ((256) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (256))), R0_BLOCK]), [XBLOCK, R0_BLOCK])
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask, tmp4, _tmp3)
        block_ptr0 = tl.advance(block_ptr0, [0, 0, R0_BLOCK])
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tmp5 = tl.full([1, 1], 128.0, tl.float32)
    tmp6 = (tmp3 / tmp5)
    tl.store(tl.make_block_ptr(out_ptr1, shape=[16384], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp6, [XBLOCK, 1]), [XBLOCK]).to(tl.float32))


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((64, 128, 256), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    mul = aten.mul.Tensor(x_1, x_1)
    mean = aten.mean.dim(mul, [1])
    return mean


def kernel(x_1, *, XBLOCK=2, R0_BLOCK=128, num_warps=2, num_stages=1):
    out_ptr1 = torch.empty_strided((64, 256), (256, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(16384, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr1, 16384, 128, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
