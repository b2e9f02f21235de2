"""Pointwise by Inductor: of embedding_positions, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1048576
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x3 = xindex // 256
    x0 = (xindex % 256)
    x4 = (xindex % 131072)
    x5 = xindex
    tmp0 = tl.load(in_ptr0 + (x3), None, eviction_policy='evict_last')
    tmp3 = tl.load(in_ptr2 + (x4), None, eviction_policy='evict_last')
    tl.device_assert((0 <= tmp0) & (tmp0 < 10000), "index out of bounds: 0 <= tmp0 < 10000")
    tmp2 = tl.load(in_ptr1 + (x0 + 256*tmp0), None)
    tmp4 = tmp2 + tmp3
    tl.store(out_ptr0 + (x5), tmp4, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    index_1 = torch.randint(5, 10000, (8, 512), dtype=torch.int64, device=device)
    table_1 = torch.randn((10000, 256), dtype=torch.float32, device=device)
    positions_1 = torch.randn((512, 256), dtype=torch.float32, device=device)
    return (index_1, table_1, positions_1,)


def reference(index_1, table_1, positions_1):
    embedding = aten.embedding.default(table_1, index_1)
    add = aten.add.Tensor(embedding, positions_1)
    return add


def kernel(index_1, table_1, positions_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 512, 256), (131072, 256, 1), dtype=torch.float32, device=index_1.device)
    grid = (triton.cdiv(1048576, XBLOCK),)
    fused_kernel[grid](index_1, table_1, positions_1, out_ptr0, 1048576, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
