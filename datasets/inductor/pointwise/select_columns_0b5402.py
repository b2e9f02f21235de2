"""Pointwise by Inductor: of select_columns, bfloat16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.02, "atol": 0.008}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1536000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 3000)
    x1 = xindex // 3000
    tmp0 = tl.load(in_ptr0 + (x0), None, eviction_policy='evict_last')
    tmp1 = (tl.full([XBLOCK], 4096, tl.int32)).to(tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert((0 <= tmp4) & (tmp4 < 4096), "index out of bounds: 0 <= tmp4 < 4096")
    tmp6 = tl.load(in_ptr1 + (tmp4 + 4096*x1), None, eviction_policy='evict_last').to(tl.float32)
    tmp7 = tl.full([1], 0, tl.int32)
    tmp8 = triton_helpers.maximum(tmp7, tmp6)
    tl.store(out_ptr0 + (x0 + 3008*x1), tmp8, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1536000 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    index_1 = torch.randint(2, 4094, (3000,), dtype=torch.int64, device=device)
    x_1 = torch.randn((512, 4096), dtype=torch.bfloat16, device=device)
    return (index_1, x_1,)


def reference(index_1, x_1):
    index = aten.index.Tensor(x_1, [None, index_1])
    relu = aten.relu.default(index)
    return relu


def kernel(index_1, x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((512, 3000), (3008, 1), dtype=torch.bfloat16, device=index_1.device)
    grid = (triton.cdiv(1536000, XBLOCK),)
    fused_kernel[grid](index_1, x_1, out_ptr0, 1536000, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
