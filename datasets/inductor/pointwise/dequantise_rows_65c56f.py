"""Pointwise by Inductor: of dequantise_rows, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.5}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2000500
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x1 = xindex // 4001
    x0 = (xindex % 4001)
    tmp0 = tl.load(in_ptr0 + (x2), xmask)
    tmp4 = tl.load(in_ptr1 + (x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.full([1], 128.0, tl.float32)
    tmp3 = tmp1 - tmp2
    tmp5 = tmp3 * tmp4
    tl.store(out_ptr0 + (x0 + 4032*x1), tmp5, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2000500 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    q_1 = torch.randint(0, 256, (500, 4001), dtype=torch.int64, device=device)
    scale_1 = torch.randn((500, 1), dtype=torch.float16, device=device)
    return (q_1, scale_1,)


def reference(q_1, scale_1):
    convert_element_type = q_1.to(torch.float32)
    sub = aten.sub.Tensor(convert_element_type, 128)
    scale_1 = scale_1.float()
    mul = aten.mul.Tensor(sub, scale_1)
    return mul.to(torch.float16)


def kernel(q_1, scale_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((500, 4001), (4032, 1), dtype=torch.float16, device=q_1.device)
    grid = (triton.cdiv(2000500, XBLOCK),)
    fused_kernel[grid](q_1, scale_1, out_ptr0, 2000500, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
