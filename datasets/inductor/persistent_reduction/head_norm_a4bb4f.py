"""Persistent reduction by Inductor: of head_norm, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 16384
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
    r0_1 = r0_index
    x0 = xindex
    x2 = (xindex % 8)
    x3 = ((xindex // 8) % 512)
    x4 = xindex // 4096
    tmp0 = tl.load(in_ptr0 + (r0_1 + 64*x0), None, eviction_policy='evict_first').to(tl.float32)
    tmp13 = tl.load(in_ptr1 + (r0_1), None, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tmp0 * tmp0
    tmp2 = tmp1.to(tl.float32)
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp5 = tl.sum(tmp3, 1)[:, None].to(tl.float32)
    tmp6 = tl.full([1, 1], 64.0, tl.float32)
    tmp7 = (tmp5 / tmp6)
    tmp8 = tmp7.to(tl.float32)
    tmp9 = tl.full([1, 1], 1e-06, tl.float32)
    tmp10 = tmp8 + tmp9
    tmp11 = libdevice.rsqrt(tmp10)
    tmp12 = tmp0 * tmp11
    tmp14 = tmp12 * tmp13
    tl.store(out_ptr1 + (r0_1 + 64*x3 + 32768*x2 + 262144*x4), tmp14, None)


def valid(params, shape):
    values = params["XBLOCK"] * 64
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    q_1 = torch.randn((4, 512, 8, 64), dtype=torch.bfloat16, device=device)
    w_1 = torch.randn((64,), dtype=torch.bfloat16, device=device)
    return (q_1, w_1,)


def reference(q_1, w_1):
    q_1 = q_1.float()
    mul = aten.mul.Tensor(q_1, q_1)
    mean = aten.mean.dim(mul, [-1], True)
    add = aten.add.Tensor(mean, 1e-06)
    rsqrt = aten.rsqrt.default(add)
    mul_1 = aten.mul.Tensor(q_1, rsqrt)
    w_1 = w_1.float()
    mul_2 = aten.mul.Tensor(mul_1, w_1)
    permute = aten.permute.default(mul_2, [0, 2, 1, 3])
    clone = aten.clone.default(permute, memory_format=torch.contiguous_format)
    return clone.to(torch.bfloat16)


def kernel(q_1, w_1, *, XBLOCK=1, num_warps=2, num_stages=1):
    out_ptr1 = torch.empty_strided((4, 8, 512, 64), (262144, 32768, 64, 1), dtype=torch.bfloat16, device=q_1.device)
    grid = (triton.cdiv(16384, XBLOCK),)
    fused_kernel[grid](q_1, w_1, out_ptr1, 16384, 64, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
