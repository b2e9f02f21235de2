"""Pointwise by Inductor: of squeeze_excite, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 467856
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x1 = xindex // 3249
    x0 = (xindex % 3249)
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tl.sigmoid(tmp1)
    tmp3 = tmp0 * tmp2
    tmp4 = tmp3 + tmp0
    tl.store(out_ptr0 + (x0 + 3264*x1), tmp4, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((3, 48, 57, 57), dtype=torch.float16, device=device)
    gate_1 = torch.empty((3, 48), dtype=torch.float16, device=device).normal_(-0.033, 1.06)
    return (x_1, gate_1,)


def reference(x_1, gate_1):
    gate_1 = gate_1.float()
    sigmoid = aten.sigmoid.default(gate_1)
    unsqueeze = aten.unsqueeze.default(sigmoid, 2)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 3)
    x_1 = x_1.float()
    mul = aten.mul.Tensor(x_1, unsqueeze_1)
    add = aten.add.Tensor(mul, x_1)
    return add.to(torch.float16)


def kernel(x_1, gate_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((3, 48, 57, 57), (156672, 3264, 57, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(467856, XBLOCK),)
    fused_kernel[grid](x_1, gate_1, out_ptr0, 467856, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
