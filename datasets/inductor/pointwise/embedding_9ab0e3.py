"""Pointwise by Inductor: of embedding, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 777000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 1000
    x0 = (xindex % 1000)
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
    tl.device_assert(((0 <= tmp0) & (tmp0 < 5000)) | ~(xmask), "index out of bounds: 0 <= tmp0 < 5000")
    tmp2 = tl.load(in_ptr1 + (x0 + 1000*tmp0), xmask).to(tl.float32)
    tmp3 = tl.full([1], 16.0, tl.float32)
    tmp4 = tmp2 * tmp3
    tl.store(out_ptr0 + (x2), tmp4, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    index_1 = torch.randint(10, 4996, (777,), dtype=torch.int64, device=device)
    table_1 = torch.randn((5000, 1000), dtype=torch.float16, device=device)
    return (index_1, table_1,)


def reference(index_1, table_1):
    embedding = aten.embedding.default(table_1, index_1)
    mul = aten.mul.Tensor(embedding, 16)
    return mul


def kernel(index_1, table_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((777, 1000), (1000, 1), dtype=torch.float16, device=index_1.device)
    grid = (triton.cdiv(777000, XBLOCK),)
    fused_kernel[grid](index_1, table_1, out_ptr0, 777000, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
