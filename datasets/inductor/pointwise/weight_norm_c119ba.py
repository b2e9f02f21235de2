"""Pointwise by Inductor: of weight_norm, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.0004}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x2 = xindex
    x0 = (xindex % 1024)
    tmp0 = tl.load(in_ptr0 + (x2), None).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0), None, eviction_policy='evict_last')
    tmp2 = tl.sqrt_rn(tmp1)
    tmp3 = tmp2.to(tl.float32)
    tmp4 = (tmp0 / tmp3)
    tl.store(out_ptr0 + (x2), tmp4, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    v_1 = torch.randn((2048, 1024), dtype=torch.bfloat16, device=device)
    sum_1 = torch.empty((1, 1024), dtype=torch.float32, device=device).uniform_(1824, 2274)
    return (v_1, sum_1,)


def reference(v_1, sum_1):
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    v_1 = v_1.float()
    div = aten.div.Tensor(v_1, pow_2)
    return div.to(torch.bfloat16)


def kernel(v_1, sum_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.bfloat16, device=v_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](v_1, sum_1, out_ptr0, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
