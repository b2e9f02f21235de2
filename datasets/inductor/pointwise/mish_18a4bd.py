"""Pointwise by Inductor: of mish, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 5e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, out_ptr1, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2097152
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(tl.make_block_ptr(in_ptr0, shape=[2097152], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]))
    tmp1 = tl.full([1], 20.0, tl.float32)
    tmp2 = tmp0 > tmp1
    tmp3 = libdevice.exp(tmp0)
    tmp4 = libdevice.log1p(tmp3)
    tmp5 = tl.where(tmp2, tmp0, tmp4)
    tmp6 = libdevice.tanh(tmp5)
    tmp7 = tmp0 * tmp6
    tmp8 = tl.sigmoid(tmp0)
    tmp9 = tmp0 * tmp8
    tmp10 = tmp6 * tmp6
    tmp11 = tl.full([1], 1.0, tl.float32)
    tmp12 = tmp11 - tmp10
    tmp13 = tmp9 * tmp12
    tmp14 = tmp6 + tmp13
    tmp15 = tmp7 * tmp14
    tl.store(tl.make_block_ptr(out_ptr0, shape=[2097152], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.broadcast_to(tmp7, [XBLOCK]).to(tl.float32))
    tl.store(tl.make_block_ptr(out_ptr1, shape=[2097152], strides=[1], block_shape=[XBLOCK], order=[0], offsets=[xoffset]), tl.broadcast_to(tmp15, [XBLOCK]).to(tl.float32))


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2097152 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (arg0_1,)


def reference(arg0_1):
    gt = aten.gt.Scalar(arg0_1, 20)
    exp = aten.exp.default(arg0_1)
    log1p = aten.log1p.default(exp)
    where = aten.where.self(gt, arg0_1, log1p)
    tanh = aten.tanh.default(where)
    mul = aten.mul.Tensor(arg0_1, tanh)
    sigmoid = aten.sigmoid.default(arg0_1)
    mul_1 = aten.mul.Tensor(arg0_1, sigmoid)
    gt_1 = aten.gt.Scalar(arg0_1, 20)
    exp_1 = aten.exp.default(arg0_1)
    log1p_1 = aten.log1p.default(exp_1)
    where_1 = aten.where.self(gt_1, arg0_1, log1p_1)
    tanh_1 = aten.tanh.default(where_1)
    mul_2 = aten.mul.Tensor(tanh_1, tanh_1)
    sub = aten.sub.Tensor(1, mul_2)
    mul_3 = aten.mul.Tensor(mul_1, sub)
    add = aten.add.Tensor(tanh_1, mul_3)
    mul_4 = aten.mul.Tensor(mul, add)
    return mul, mul_4


def kernel(arg0_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    out_ptr1 = torch.empty_strided((2048, 1024), (1024, 1), dtype=torch.float32, device=arg0_1.device)
    grid = (triton.cdiv(2097152, XBLOCK),)
    fused_kernel[grid](arg0_1, out_ptr0, out_ptr1, 2097152, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0, out_ptr1
