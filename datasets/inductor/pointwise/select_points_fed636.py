"""Pointwise by Inductor: of select_points, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.0002}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2048
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp6 = tl.load(in_ptr1 + (x0), xmask)
    tmp1 = (tl.full([XBLOCK], 2048, tl.int32)).to(tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((0 <= tmp4) & (tmp4 < 2048)) | ~(xmask), "index out of bounds: 0 <= tmp4 < 2048")
    tmp7 = (tl.full([XBLOCK], 1024, tl.int32)).to(tl.int32)
    tmp8 = tmp6 + tmp7
    tmp9 = tmp6 < 0
    tmp10 = tl.where(tmp9, tmp8, tmp6)
    tl.device_assert(((0 <= tmp10) & (tmp10 < 1024)) | ~(xmask), "index out of bounds: 0 <= tmp10 < 1024")
    tmp12 = tl.load(in_ptr2 + (tmp10 + 1024*tmp4), xmask, eviction_policy='evict_last')
    tmp13 = tl.full([1], 2.0, tl.float32)
    tmp14 = tmp12 * tmp13
    tl.store(out_ptr0 + (x0), tmp14, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    rows_1 = torch.randint(0, 2048, (2048,), dtype=torch.int64, device=device)
    columns_1 = torch.randint(0, 1024, (2048,), dtype=torch.int64, device=device)
    x_1 = torch.randn((2048, 1024), dtype=torch.float32, device=device)
    return (rows_1, columns_1, x_1,)


def reference(rows_1, columns_1, x_1):
    index = aten.index.Tensor(x_1, [rows_1, columns_1])
    mul = aten.mul.Tensor(index, 2)
    return mul


def kernel(rows_1, columns_1, x_1, *, XBLOCK=256, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((2048,), (1,), dtype=torch.float32, device=rows_1.device)
    grid = (triton.cdiv(2048, XBLOCK),)
    fused_kernel[grid](rows_1, columns_1, x_1, out_ptr0, 2048, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
