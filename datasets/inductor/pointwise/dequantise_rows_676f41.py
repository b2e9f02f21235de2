"""Pointwise by Inductor: of dequantise_rows, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 1}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x2 = xindex
    x1 = xindex // 1024
    tmp0 = tl.load(in_ptr0 + (x2), None)
    tmp4 = tl.load(in_ptr1 + (x1), None, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.full([1], 128.0, tl.float32)
    tmp3 = tmp1 - tmp2
    tmp5 = tmp3 * tmp4
    tl.store(out_ptr0 + (x2), tmp5, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    q_1 = torch.randint(0, 256, (2048, 1024), dtype=torch.int64, device=device)
    scale_1 = torch.empty((2048, 1), dtype=torch.bfloat16, device=device).normal_(0.0314, 0.994)
    return (q_1, scale_1,)


def reference(q_1, scale_1):
    convert_element_type = q_1.to(torch.float32)
    sub = aten.sub.Tensor(convert_element_type, 128)
    scale_1 = scale_1.float()
    mul = aten.mul.Tensor(sub, scale_1)
    return mul.to(torch.bfloat16)


def kernel(q_1, scale_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=q_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](q_1, scale_1, out_ptr0, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
