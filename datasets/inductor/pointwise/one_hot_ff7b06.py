"""Pointwise by Inductor: of one_hot, float16."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 3e-08}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 911000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 1000
    x0 = (xindex % 1000)
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
    tmp1 = (x0).to(tl.int64)
    tmp2 = (tmp1).to(tl.int64)
    tmp3 = tmp0 == tmp2
    tmp4 = tmp3.to(tl.float32)
    tl.store(out_ptr0 + (x2), tmp4, xmask)


def valid(params, shape):
    values = params["XBLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    index_1 = torch.randint(2, 3000, (911,), dtype=torch.int64, device=device)
    return (index_1,)


def reference(index_1):
    unsqueeze = aten.unsqueeze.default(index_1, 1)
    iota = torch.ops.prims.iota.default(1000, start=0, step=1, dtype=torch.int64, device=index_1.device, requires_grad=False)
    eq = aten.eq.Tensor(unsqueeze, iota)
    convert_element_type = eq.to(torch.float32)
    return convert_element_type


def kernel(index_1, *, XBLOCK=1024, num_warps=4, num_stages=1):
    out_ptr0 = torch.empty_strided((911, 1000), (1000, 1), dtype=torch.float32, device=index_1.device)
    grid = (triton.cdiv(911000, XBLOCK),)
    fused_kernel[grid](index_1, out_ptr0, 911000, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr0
