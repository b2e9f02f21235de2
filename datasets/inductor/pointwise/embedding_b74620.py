"""Pointwise by Inductor: of embedding, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 4096
    xnumel = 256
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    y0 = yindex
    x1 = xindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[4096], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), eviction_policy='evict_last')[:, None]
    tl.device_assert((0 <= tmp0) & (tmp0 < 30000), "index out of bounds: 0 <= tmp0 < 30000")
    tmp2 = tl.load(in_ptr1 + (x1 + 256*tmp0), xmask)
    tmp3 = tl.full([1, 1], 16.0, tl.float32)
    tmp4 = tmp2 * tmp3
    tl.store(tl.make_block_ptr(out_ptr0, shape=[4096, 256], strides=[256, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp4, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    index_1 = torch.randint(10, 29999, (4096,), dtype=torch.int64, device=device)
    table_1 = torch.randn((30000, 256), dtype=torch.float32, device=device)
    return (index_1, table_1,)


def reference(index_1, table_1):
    embedding = aten.embedding.default(table_1, index_1)
    mul = aten.mul.Tensor(embedding, 16)
    return mul


def kernel(index_1, table_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((4096, 256), (256, 1), dtype=torch.float32, device=index_1.device)
    grid = (triton.cdiv(256, XBLOCK), triton.cdiv(4096, YBLOCK),)
    fused_kernel[grid](index_1, table_1, out_ptr0, 4096, 256, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
