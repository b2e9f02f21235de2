"""Pointwise by Inductor: of select_rows, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 2192818
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 1777
    x0 = (xindex % 1777)
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
    tmp1 = (tl.full([XBLOCK], 900, tl.int32)).to(tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((0 <= tmp4) & (tmp4 < 900)) | ~(xmask), "index out of bounds: 0 <= tmp4 < 900")
    tmp6 = tl.load(in_ptr1 + (x0 + 1777*tmp4), xmask)
    tmp7 = tl.full([1], 1.0, tl.float32)
    tmp8 = tmp6 + tmp7
    tl.store(out_ptr0 + (x0 + 1792*x1), tmp8, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and 2192818 <= 1048576 * params["XBLOCK"]


def inputs(device="cuda"):
    index_1 = torch.randint(0, 898, (1234,), dtype=torch.int64, device=device)
    x_1 = torch.randn((900, 1777), dtype=torch.float32, device=device)
    return (index_1, x_1,)


def reference(index_1, x_1):
    index = aten.index.Tensor(x_1, [index_1])
    add = aten.add.Tensor(index, 1)
    return add


def kernel(index_1, x_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((1234, 1777), (1792, 1), dtype=torch.float32, device=index_1.device)
    grid = (triton.cdiv(2192818, XBLOCK),)
    fused_kernel[grid](index_1, x_1, out_ptr0, 2192818, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
