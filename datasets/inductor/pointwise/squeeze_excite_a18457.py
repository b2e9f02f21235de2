"""Pointwise by Inductor: of squeeze_excite, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 512],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 512
    xnumel = 784
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[512, 784], strides=[784, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), boundary_check=[0, 1])
    tmp1 = tl.load(tl.make_block_ptr(in_ptr1, shape=[512], strides=[1], block_shape=[YBLOCK], order=[0], offsets=[yoffset]), boundary_check=[0], eviction_policy='evict_last')[:, None]
    tmp2 = tl.sigmoid(tmp1)
    tmp3 = tmp0 * tmp2
    tmp4 = tmp3 + tmp0
    tl.store(tl.make_block_ptr(out_ptr0, shape=[512, 784], strides=[784, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp4, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[0, 1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((8, 64, 28, 28), dtype=torch.float32, device=device)
    gate_1 = torch.randn((8, 64), dtype=torch.float32, device=device)
    return (x_1, gate_1,)


def reference(x_1, gate_1):
    sigmoid = aten.sigmoid.default(gate_1)
    unsqueeze = aten.unsqueeze.default(sigmoid, 2)
    unsqueeze_1 = aten.unsqueeze.default(unsqueeze, 3)
    mul = aten.mul.Tensor(x_1, unsqueeze_1)
    add = aten.add.Tensor(mul, x_1)
    return add


def kernel(x_1, gate_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 64, 28, 28), (50176, 784, 28, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(784, XBLOCK), triton.cdiv(512, YBLOCK),)
    fused_kernel[grid](x_1, gate_1, out_ptr0, 512, 784, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
