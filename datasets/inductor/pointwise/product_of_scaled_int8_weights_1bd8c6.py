"""Pointwise by Inductor: of product_of_scaled_int8_weights, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.005}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x2 = xindex
    x0 = (xindex % 2048)
    tmp0 = tl.load(in_ptr0 + (x2), None)
    tmp2 = tl.load(in_ptr1 + (x0), None, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp3 = tl.full([1], 0.01, tl.float32)
    tmp4 = tmp2 * tmp3
    tmp5 = tmp1 * tmp4
    tl.store(out_ptr0 + (x2), tmp5, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    w_1 = torch.randint(-60, 60, (1024, 2048), dtype=torch.int8, device=device)
    s_1 = torch.randn((2048,), dtype=torch.bfloat16, device=device)
    return (w_1, s_1,)


def reference(w_1, s_1):
    convert_element_type = w_1.to(torch.float32)
    s_1 = s_1.float()
    mul = aten.mul.Tensor(s_1, 0.01)
    mul_1 = aten.mul.Tensor(convert_element_type, mul)
    return mul_1.to(torch.bfloat16)


def kernel(w_1, s_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1024, 2048), (2048, 1), dtype=torch.bfloat16, device=w_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](w_1, s_1, out_ptr0, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
