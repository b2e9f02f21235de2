"""Pointwise by Inductor: of select_rows, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 2, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 3000
    xnumel = 512
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    y0 = yindex
    x1 = xindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[3000], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), boundary_check=[0], eviction_policy='evict_last')[:, None]
    tmp1 = (tl.full([1, 1], 4096, tl.int32)).to(tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((0 <= tmp4) & (tmp4 < 4096)) | ~(ymask), "index out of bounds: 0 <= tmp4 < 4096")
    tmp6 = tl.load(in_ptr1 + (x1 + 512*tmp4), xmask & ymask)
    tmp7 = tl.full([1, 1], 1.0, tl.float32)
    tmp8 = tmp6 + tmp7
    tl.store(tl.make_block_ptr(out_ptr0, shape=[3000, 512], strides=[512, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp8, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 1536000 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    index_1 = torch.randint(2, 4094, (3000,), dtype=torch.int64, device=device)
    x_1 = torch.randn((4096, 512), dtype=torch.float32, device=device)
    return (index_1, x_1,)


def reference(index_1, x_1):
    index = aten.index.Tensor(x_1, [index_1])
    add = aten.add.Tensor(index, 1)
    return add


def kernel(index_1, x_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((3000, 512), (512, 1), dtype=torch.float32, device=index_1.device)
    grid = (triton.cdiv(512, XBLOCK), triton.cdiv(3000, YBLOCK),)
    fused_kernel[grid](index_1, x_1, out_ptr0, 3000, 512, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
