"""Pointwise by Inductor: of glu_halves, bfloat16."""

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
TOLERANCE = {"rtol": 0.02, "atol": 0.003}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 4194304
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = (xindex % 2048)
    x1 = xindex // 2048
    x2 = xindex
    tmp0 = (x0).to(tl.int32)
    tmp1 = tl.full([1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = (x0).to(tl.int64)
    tmp4 = (tmp3).to(tl.int64)
    tmp5 = tl.full([1], 1024, tl.int64)
    tmp6 = tmp4 < tmp5
    tmp7 = tl.load(in_ptr0 + (1024 + 2048*x1 + (x0)), tmp6, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp8 = tmp7.to(tl.float32)
    tmp9 = tl.sigmoid(tmp8)
    tmp10 = tl.load(in_ptr1 + (1024*x1 + (x0)), tmp6, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp11 = tmp10.to(tl.float32)
    tmp12 = tmp9 * tmp11
    tmp13 = tl.full(tmp12.shape, 0.0, tmp12.dtype)
    tmp14 = tl.where(tmp6, tmp12, tmp13)
    tmp15 = tmp0 >= tmp5
    tmp16 = tl.full([1], 2048, tl.int64)
    tmp17 = tmp0 < tmp16
    tmp18 = tl.load(in_ptr0 + (1024 + 2048*x1 + ((-1024) + x0)), tmp15, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp19 = tmp18.to(tl.float32)
    tmp20 = tl.sigmoid(tmp19)
    tmp21 = tl.full([1], 1.0, tl.float32)
    tmp22 = tmp21 - tmp20
    tmp23 = tmp22 * tmp20
    tmp24 = tl.load(in_ptr0 + (2048*x1 + ((-1024) + x0)), tmp15, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp25 = tmp24.to(tl.float32)
    tmp26 = tmp23 * tmp25
    tmp27 = tl.load(in_ptr1 + (1024*x1 + ((-1024) + x0)), tmp15, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp28 = tmp27.to(tl.float32)
    tmp29 = tmp26 * tmp28
    tmp30 = tl.full(tmp29.shape, 0.0, tmp29.dtype)
    tmp31 = tl.where(tmp15, tmp29, tmp30)
    tmp32 = tl.where(tmp6, tmp14, tmp31)
    tmp33 = tmp32.to(tl.float32)
    tl.store(out_ptr0 + (x2), tmp33, None)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 4194304 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    arg0_1 = torch.randn((2048, 2048), dtype=torch.bfloat16, device=device)
    glu = torch.empty((2048, 1024), dtype=torch.bfloat16, device=device).normal_(0.000184, 0.541)
    return (arg0_1, glu,)


def reference(arg0_1, glu):
    convert_element_type_1 = arg0_1.to(torch.float32)
    slice_2 = aten.slice.Tensor(convert_element_type_1, 1, 1024, 2048)
    sigmoid = aten.sigmoid.default(slice_2)
    convert_element_type = glu.to(torch.float32)
    mul_3 = aten.mul.Tensor(sigmoid, convert_element_type)
    sub = aten.sub.Tensor(1.0, sigmoid)
    mul = aten.mul.Tensor(sub, sigmoid)
    slice_1 = aten.slice.Tensor(convert_element_type_1, 1, 0, 1024)
    mul_1 = aten.mul.Tensor(mul, slice_1)
    mul_2 = aten.mul.Tensor(mul_1, convert_element_type)
    cat = aten.cat.default([mul_3, mul_2], 1)
    convert_element_type_2 = cat.to(torch.bfloat16)
    return convert_element_type_2


def kernel(arg0_1, glu, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048, 2048), (2048, 1), dtype=torch.bfloat16, device=arg0_1.device)
    grid = (triton.cdiv(4194304, XBLOCK),)
    fused_kernel[grid](arg0_1, glu, out_ptr0, 4194304, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
