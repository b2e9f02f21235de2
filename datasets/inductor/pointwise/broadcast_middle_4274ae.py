"""Pointwise by Inductor: of broadcast_middle, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 4e-05}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 8192
    xnumel = 256
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x2 = xindex
    y3 = yindex
    y0 = (yindex % 128)
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[8192, 256], strides=[256, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[1])
    tmp1 = tl.reshape(tl.broadcast_to(tl.load(tl.make_block_ptr(in_ptr1, shape=[128], strides=[1], block_shape=[((128) * ((128) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (128)))], order=[0], offsets=[(yoffset % 128)]), eviction_policy='evict_last')[None, None, :, None], [(127 + YBLOCK) // 128, ((1) * ((1) <= ((127 + YBLOCK) // 128)) + ((127 + YBLOCK) // 128) * (((127 + YBLOCK) // 128) < (1))), ((128) * ((128) <= (YBLOCK)) + (YBLOCK) * ((YBLOCK) < (128))), XBLOCK]), [YBLOCK, XBLOCK])
    tmp4 = tl.load(tl.make_block_ptr(in_ptr2, shape=[256], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), boundary_check=[0], eviction_policy='evict_last')[None, :]
    tmp2 = tmp0 + tmp1
    tmp3 = tl.sigmoid(tmp2)
    tmp5 = tmp3 * tmp4
    tl.store(tl.make_block_ptr(out_ptr0, shape=[8192, 256], strides=[256, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp5, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((64, 128, 256), dtype=torch.float32, device=device)
    m_1 = torch.empty((128, 1), dtype=torch.float32, device=device).normal_(-0.00703, 0.949)
    n_1 = torch.empty((256,), dtype=torch.float32, device=device).normal_(0.143, 1.02)
    return (x_1, m_1, n_1,)


def reference(x_1, m_1, n_1):
    add = aten.add.Tensor(x_1, m_1)
    sigmoid = aten.sigmoid.default(add)
    mul = aten.mul.Tensor(sigmoid, n_1)
    return mul


def kernel(x_1, m_1, n_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((64, 128, 256), (32768, 256, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(256, XBLOCK), triton.cdiv(8192, YBLOCK),)
    fused_kernel[grid](x_1, m_1, n_1, out_ptr0, 8192, 256, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
