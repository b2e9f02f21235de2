"""Pointwise by Inductor: of attention_by_hand, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 8e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 262144
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 64)
    x1 = ((xindex // 64) % 256)
    x2 = ((xindex // 16384) % 8)
    x3 = xindex // 131072
    x4 = xindex
    tmp0 = tl.load(in_ptr0 + (x0 + 64*x2 + 512*x1 + 131072*x3), None)
    tl.store(out_ptr0 + (x4), tmp0, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    v_1 = torch.randn((2, 256, 512), dtype=torch.float32, device=device)
    return (v_1,)


def reference(v_1):
    view_2 = aten.reshape.default(v_1, [2, 256, 8, 64])
    permute_2 = aten.permute.default(view_2, [0, 2, 1, 3])
    expand_3 = aten.expand.default(permute_2, [2, 8, 256, 64])
    clone_2 = aten.clone.default(expand_3, memory_format=torch.contiguous_format)
    return clone_2


def kernel(v_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2, 8, 256, 64), (131072, 16384, 64, 1), dtype=torch.float32, device=v_1.device)
    grid = (triton.cdiv(262144, XBLOCK),)
    fused_kernel[grid](v_1, out_ptr0, 262144, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
