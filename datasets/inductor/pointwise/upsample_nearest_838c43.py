"""Pointwise by Inductor: of upsample_nearest, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "YBLOCK": [1, 4, 16, 32, 64, 128, 256, 1024],
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 8e-05}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK : tl.constexpr, XBLOCK : tl.constexpr):
    ynumel = 57344
    xnumel = 112
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = tl.full([YBLOCK], True, tl.int1)[:, None]
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    y0 = (yindex % 112)
    x2 = xindex
    y1 = yindex // 112
    y3 = yindex
    tmp0 = (y0).to(tl.float32)
    tmp1 = tl.full([1, 1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tmp2.to(tl.int32)
    tmp4 = (x2).to(tl.float32)
    tmp5 = tmp4 * tmp1
    tmp6 = tmp5.to(tl.int32)
    tmp7 = tl.load(in_ptr0 + (tmp6 + 56*tmp3 + 3136*y1), xmask, eviction_policy='evict_last')
    tl.store(tl.make_block_ptr(out_ptr0, shape=[57344, 112], strides=[112, 1], block_shape=[YBLOCK, XBLOCK], order=[1, 0], offsets=[yoffset, xoffset]), tl.broadcast_to(tmp7, [YBLOCK, XBLOCK]).to(tl.float32), boundary_check=[1])


def valid(params, shape):
    values = params["YBLOCK"] * params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 6422528 <= 1048576 * params["XBLOCK"] * params["YBLOCK"]


def inputs(device="cuda"):
    x_1 = torch.randn((8, 64, 56, 56), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    iota = torch.ops.prims.iota.default(112, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    mul = aten.mul.Tensor(iota, 1)
    add = aten.add.Tensor(mul, 0)
    convert_element_type = add.to(torch.float32)
    add_1 = aten.add.Tensor(convert_element_type, 0.0)
    mul_1 = aten.mul.Tensor(add_1, 0.5)
    convert_element_type_1 = mul_1.to(torch.int64)
    unsqueeze = aten.unsqueeze.default(convert_element_type_1, -1)
    iota_1 = torch.ops.prims.iota.default(112, start=0, step=1, dtype=torch.int64, device=x_1.device, requires_grad=False)
    mul_2 = aten.mul.Tensor(iota_1, 1)
    add_2 = aten.add.Tensor(mul_2, 0)
    convert_element_type_2 = add_2.to(torch.float32)
    add_3 = aten.add.Tensor(convert_element_type_2, 0.0)
    mul_3 = aten.mul.Tensor(add_3, 0.5)
    convert_element_type_3 = mul_3.to(torch.int64)
    _unsafe_index = aten._unsafe_index.Tensor(x_1, [None, None, unsqueeze, convert_element_type_3])
    return _unsafe_index


def kernel(x_1, *, YBLOCK=32, XBLOCK=32, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((8, 64, 112, 112), (802816, 12544, 112, 1), dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(112, XBLOCK), triton.cdiv(57344, YBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, 57344, 112, YBLOCK=YBLOCK, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
