"""Pointwise by Inductor: of dropout_by_mask, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, out_ptr1, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None).to(tl.int1)
    tmp1 = tl.load(in_ptr1 + (x0), None).to(tl.float32)
    tmp2 = tl.full([1], 1.1111111111111112, tl.float32)
    tmp3 = tmp1 * tmp2
    tmp4 = tl.full([1], 0.0, tl.float32)
    tmp5 = tl.where(tmp0, tmp3, tmp4)
    tmp6 = tl.where(tmp0, tmp5, tmp4)
    tmp7 = tmp6 * tmp2
    tl.store(out_ptr0 + (x0), tmp5, None)
    tl.store(out_ptr1 + (x0), tmp7, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    arg1_1 = torch.rand((2048, 1024), device=device) < 0.9
    arg0_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    return (arg1_1, arg0_1,)


def reference(arg1_1, arg0_1):
    arg0_1 = arg0_1.float()
    div = aten.div.Tensor(arg0_1, 0.9)
    scalar_tensor = aten.scalar_tensor.default(0.0, dtype=torch.float32, device=arg1_1.device)
    where = aten.where.self(arg1_1, div, scalar_tensor)
    scalar_tensor_1 = aten.scalar_tensor.default(0, dtype=torch.float32, device=arg1_1.device)
    where_1 = aten.where.self(arg1_1, where, scalar_tensor_1)
    div_1 = aten.div.Tensor(where_1, 0.9)
    return where.to(torch.bfloat16), div_1.to(torch.bfloat16)


def kernel(arg1_1, arg0_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg1_1.device)
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=arg1_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](arg1_1, arg0_1, out_ptr0, out_ptr1, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
