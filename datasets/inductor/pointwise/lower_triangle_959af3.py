"""Pointwise by Inductor: of lower_triangle, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 8e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2037527
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 4003)
    x1 = xindex // 4003
    x2 = xindex
    tmp4 = tl.load(in_ptr0 + (x2), xmask)
    tmp0 = (x0 + ((-1)*x1)).to(tl.int64)
    tmp1 = (tmp0).to(tl.int64)
    tmp2 = tl.full([1], 0, tl.int64)
    tmp3 = tmp1 <= tmp2
    tmp5 = tl.full([1], 0.0, tl.float32)
    tmp6 = tl.where(tmp3, tmp4, tmp5)
    tmp7 = tl.full([1], 3, tl.int64)
    tmp8 = tmp1 >= tmp7
    tmp9 = tl.where(tmp8, tmp4, tmp5)
    tmp10 = tmp6 - tmp9
    tl.store(out_ptr0 + (x0 + 4032*x1), tmp10, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2037527 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((509, 4003), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    iota = torch.ops.prims.iota.default(4003, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze = aten.unsqueeze.default(iota, -2)
    iota_1 = torch.ops.prims.iota.default(509, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze_1 = aten.unsqueeze.default(iota_1, -1)
    sub = aten.sub.Tensor(unsqueeze, unsqueeze_1)
    le = aten.le.Scalar(sub, 0)
    scalar_tensor = aten.scalar_tensor.default(0, dtype=torch.float32, device=x_1.device)
    where = aten.where.self(le, x_1, scalar_tensor)
    iota_2 = torch.ops.prims.iota.default(4003, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze_2 = aten.unsqueeze.default(iota_2, -2)
    iota_3 = torch.ops.prims.iota.default(509, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    unsqueeze_3 = aten.unsqueeze.default(iota_3, -1)
    sub_1 = aten.sub.Tensor(unsqueeze_2, unsqueeze_3)
    ge = aten.ge.Scalar(sub_1, 3)
    scalar_tensor_1 = aten.scalar_tensor.default(0, dtype=torch.float32, device=x_1.device)
    where_1 = aten.where.self(ge, x_1, scalar_tensor_1)
    sub_2 = aten.sub.Tensor(where, where_1)
    return sub_2


def kernel(x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((509, 4003), (4032, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(2037527, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 2037527, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
