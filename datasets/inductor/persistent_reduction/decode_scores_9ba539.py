"""Persistent reduction by Inductor: of decode_scores, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0006}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 262144
    r0_numel = 64
    R0_BLOCK: tl.constexpr = 64
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = tl.full([XBLOCK], True, tl.int1)[:, None]
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = tl.full([R0_BLOCK], True, tl.int1)[None, :]
    roffset = r0_offset
    rindex = r0_index
    r0_3 = r0_index
    x0 = (xindex % 8)
    x2 = xindex // 4096
    x4 = xindex
    tmp0 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr0, shape=[64, 8, 64], strides=[512, 64, 1], block_shape=[(4095 + XBLOCK) // 4096, ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK], order=[2, 1, 0], offsets=[xoffset // 4096, (xoffset % 8), r0_offset]), boundary_check=[2], padding_option='zero', eviction_policy='evict_last')[:, None, :, :], [(4095 + XBLOCK) // 4096, ((512) * ((512) <= ((7 + XBLOCK) // 8)) + ((7 + XBLOCK) // 8) * (((7 + XBLOCK) // 8) < (512))), ((8) * ((8) <= (XBLOCK)) + (XBLOCK) * ((XBLOCK) < (8))), R0_BLOCK]), [XBLOCK, R0_BLOCK])
    tmp1 = tl.load(tl.make_block_ptr(in_ptr1, shape=[262144, 64], strides=[64, 1], block_shape=[XBLOCK, R0_BLOCK], order=[1, 0], offsets=[xoffset, r0_offset]), boundary_check=[1], padding_option='zero', eviction_policy='evict_first')
    tmp2 = tmp0 * tmp1
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp5 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[262144], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.reshape(tl.broadcast_to(tmp5, [XBLOCK, 1]), [XBLOCK]).to(tl.float32), boundary_check=[])


def valid(params, shape):
    values = params["XBLOCK"] * 64
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    q_1 = torch.randn((64, 8, 64), dtype=torch.float32, device=device)
    k_1 = torch.randn((64, 512, 8, 64), dtype=torch.float32, device=device)
    return (q_1, k_1,)


def reference(q_1, k_1):
    unsqueeze = aten.unsqueeze.default(q_1, 1)
    mul = aten.mul.Tensor(unsqueeze, k_1)
    sum_1 = aten.sum.dim_IntList(mul, [-1])
    return sum_1


def kernel(q_1, k_1, *, XBLOCK=1, num_warps=2, num_stages=1):
    out_ptr0 = torch.empty_strided((64, 512, 8), (4096, 8, 1), dtype=torch.float32, device=q_1.device)
    grid = (triton.cdiv(262144, XBLOCK),)
    fused_kernel[grid](q_1, k_1, out_ptr0, 262144, 64, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
