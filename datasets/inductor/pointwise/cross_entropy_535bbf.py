"""Pointwise by Inductor: of cross_entropy, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.01, "atol": 4e-06}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, in_ptr5, in_ptr6, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 3216448
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 50257)
    x1 = xindex // 50257
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x0 + 50304*x1), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x1), xmask, eviction_policy='evict_last')
    tmp4 = tl.load(in_ptr2 + (x1), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp9 = tl.load(in_ptr3 + (x2), xmask).to(tl.float32)
    tmp11 = tl.load(in_ptr4 + (x1), xmask, eviction_policy='evict_last')
    tmp13 = tl.load(in_ptr5 + (x1), xmask, eviction_policy='evict_last')
    tmp19 = tl.load(in_ptr6 + (x1), xmask, eviction_policy='evict_last')
    tmp2 = tl.full([1], -100, tl.int64)
    tmp3 = tmp1 != tmp2
    tmp5 = tl.full([1], 0.0, tl.float32)
    tmp6 = tl.where(tmp3, tmp4, tmp5)
    tmp7 = tmp0 * tmp6
    tmp8 = tmp7.to(tl.float32)
    tmp10 = tmp9.to(tl.float32)
    tmp12 = tmp10 - tmp11
    tmp14 = tl_math.log(tmp13)
    tmp15 = tmp12 - tmp14
    tmp16 = tmp15.to(tl.float32)
    tmp17 = tmp16.to(tl.float32)
    tmp18 = libdevice.exp(tmp17)
    tmp20 = tmp18 * tmp19
    tmp21 = tmp8 - tmp20
    tmp22 = tmp21.to(tl.float32)
    tl.store(out_ptr0 + (x0 + 50304*x1), tmp22, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 3216448 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    scatter = torch.empty((3219409,), dtype=torch.float16, device=device).uniform_(-1, 0).as_strided((64, 50257), (50304, 1))
    arg1_1 = torch.randint(1740, 50248, (64,), dtype=torch.int64, device=device)
    where_1 = torch.empty((64,), dtype=torch.float16, device=device).uniform_(9.078, 13.52)
    arg0_1 = torch.randn((64, 50257), dtype=torch.float16, device=device)
    getitem = torch.empty((64,), dtype=torch.float32, device=device).uniform_(3.787, 4.828).as_strided((64, 1), (1, 64))
    getitem_1 = torch.empty((64,), dtype=torch.float32, device=device).uniform_(663.6, 1867).as_strided((64, 1), (1, 64))
    sum_2 = torch.empty((64,), dtype=torch.float32, device=device).uniform_(-13.52, -9.078).as_strided((64, 1), (1, 64))
    return (scatter, arg1_1, where_1, arg0_1, getitem, getitem_1, sum_2,)


def reference(scatter, arg1_1, where_1, arg0_1, getitem, getitem_1, sum_2):
    convert_element_type = arg0_1.to(torch.float32)
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    exp_1 = aten.exp.default(sub_1)
    unsqueeze_1 = aten.unsqueeze.default(arg1_1, 1)
    ne_3 = aten.ne.Scalar(unsqueeze_1, -100)
    unsqueeze_2 = aten.unsqueeze.default(where_1, 1)
    scalar_tensor_3 = aten.scalar_tensor.default(0, dtype=torch.float32, device=scatter.device)
    unsqueeze_2 = unsqueeze_2.float()
    where_3 = aten.where.self(ne_3, unsqueeze_2, scalar_tensor_3)
    scatter = scatter.float()
    mul = aten.mul.Tensor(scatter, where_3)
    mul_1 = aten.mul.Tensor(exp_1, sum_2)
    sub_2 = aten.sub.Tensor(mul, mul_1)
    return sub_2.to(torch.float16)


def kernel(scatter, arg1_1, where_1, arg0_1, getitem, getitem_1, sum_2, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((64, 50257), (50304, 1), dtype=torch.float16, device=scatter.device)
    grid = (triton.cdiv(3216448, XBLOCK),)
    fused_kernel[grid](scatter, arg1_1, where_1, arg0_1, getitem, getitem_1, sum_2, out_ptr0, 3216448, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
