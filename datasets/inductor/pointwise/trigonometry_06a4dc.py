"""Pointwise by Inductor: of trigonometry, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.009}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.float32)
    tmp1 = tl_math.sin(tmp0)
    tmp2 = tl.full([1], 2.0, tl.float32)
    tmp3 = tmp0 * tmp2
    tmp4 = tl_math.cos(tmp3)
    tmp5 = tmp1 * tmp4
    tmp6 = tl_math.abs(tmp0)
    tmp7 = tmp6 > tl.full([], 0x3F800000, tl.uint32).to(tl.float32, bitcast=True)
    tmp8 = tl.inline_asm_elementwise('rcp.approx.ftz.f32 $0, $1;', '=f, f', [tmp6], dtype=tl.float32, is_pure=True, pack=1)
    tmp9 = tl.where(tmp7, tmp8, tmp6)
    tmp10 = tmp9 * tmp9
    tmp11 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tl.full([], 0x3B2090AA, tl.uint32).to(tl.float32, bitcast=True), tmp10, tl.full([], 0xBC6BE14F, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp12 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp11, tmp10, tl.full([], 0x3D23397E, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp13 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp12, tmp10, tl.full([], 0xBD948A7A, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp14 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp13, tmp10, tl.full([], 0x3DD76B21, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp15 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp14, tmp10, tl.full([], 0xBE111E88, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp16 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp15, tmp10, tl.full([], 0x3E4CAF60, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp17 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp16, tmp10, tl.full([], 0xBEAAAA27, tl.uint32).to(tl.float32, bitcast=True)], dtype=tl.float32, is_pure=True, pack=1)
    tmp18 = tmp10 * tmp17
    tmp19 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tmp18, tmp9, tmp9], dtype=tl.float32, is_pure=True, pack=1)
    tmp20 = -tmp19
    tmp21 = tl.inline_asm_elementwise('fma.rn.f32 $0, $1, $2, $3;', '=f, f, f, f', [tl.full([], 0x3F6EE581, tl.uint32).to(tl.float32, bitcast=True), tl.full([], 0x3FD774EB, tl.uint32).to(tl.float32, bitcast=True), tmp20], dtype=tl.float32, is_pure=True, pack=1)
    tmp22 = tl.where(tmp7, tmp21, tmp19)
    tmp23 = tmp0.to(tl.uint32, bitcast=True) & tl.full([], 0x80000000, tl.uint32)
    tmp24 = tmp22.to(tl.uint32, bitcast=True)
    tmp25 = tmp23 | tmp24
    tmp26 = tmp25.to(tl.float32, bitcast=True)
    tmp27 = tmp6 <= tl.full([], 0x7F800000, tl.uint32).to(tl.float32, bitcast=True)
    tmp28 = tl.where(tmp27, tmp26, tmp22)
    tmp29 = tmp5 + tmp28
    tl.store(out_ptr0 + (x0), tmp29, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (x_1,)


def reference(x_1):
    x_1 = x_1.float()
    sin = aten.sin.default(x_1)
    mul = aten.mul.Tensor(x_1, 2)
    cos = aten.cos.default(mul)
    mul_1 = aten.mul.Tensor(sin, cos)
    atan = aten.atan.default(x_1)
    add = aten.add.Tensor(mul_1, atan)
    return add.to(torch.bfloat16)


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=x_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
