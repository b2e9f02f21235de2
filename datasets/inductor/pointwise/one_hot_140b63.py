"""Pointwise by Inductor: of one_hot, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 1e-07}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 4096
    xnumel = 1000
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    y0 = yindex
    x1 = xindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[4096], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), eviction_policy='evict_last')[:, None]
    tmp1 = (x1).to(tl.int64)
    tmp2 = (tmp1).to(tl.int64)
    tmp3 = tmp0 == tmp2
    tmp4 = tmp3.to(tl.float32)
    tl.store(tl.make_block_ptr(out_ptr0, shape=[4096, 1000], strides=[1000, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp4, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 4096000 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    index_1 = torch.randint(0, 1000, (4096,), dtype=torch.int64, device=device)
    return (index_1,)


def reference(index_1):
    unsqueeze = aten.unsqueeze.default(index_1, 1)
    iota = torch.ops.prims.iota.default(1000, start=0, step=1, dtype=torch.int64, device=index_1.device, requires_grad=False)
    eq = aten.eq.Tensor(unsqueeze, iota)
    convert_element_type = eq.to(torch.float32)
    return convert_element_type


def kernel(index_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((4096, 1000), (1000, 1), dtype=torch.float32, device=index_1.device)
    grid = (triton.cdiv(1000, XBLOCK), triton.cdiv(4096, YBLOCK),)
    fused_kernel[grid](index_1, out_ptr0, 4096, 1000, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
