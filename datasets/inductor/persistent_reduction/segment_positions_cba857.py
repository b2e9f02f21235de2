"""Persistent reduction by Inductor: of segment_positions, float16."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.01}


@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0

@triton.jit
def fused_kernel(in_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 777
    r0_numel = 555
    R0_BLOCK: tl.constexpr = 1024
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 555*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
    tmp1 = tl.full([1, 1], 0.0, tl.float32)
    tmp2 = tmp0 > tmp1
    tmp3 = tmp2.to(tl.int64)
    tmp4 = tmp3.to(tl.int64)
    tmp5 = tl.broadcast_to(tmp4, [XBLOCK, R0_BLOCK])
    tmp6, = tl.associative_scan((tmp5,), 1, _triton_helper_fn_add0)
    tmp7 = tl.full([1, 1], 1, tl.int64)
    tmp8 = tmp6 - tmp7
    tl.store(out_ptr1 + (r0_1 + 555*x0), tmp8, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * 1024
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((777, 555), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    gt = aten.gt.Scalar(x_1, 0)
    convert_element_type = gt.to(torch.int64)
    cumsum = aten.cumsum.default(convert_element_type, 1)
    sub = aten.sub.Tensor(cumsum, 1)
    return sub


def kernel(x_1, *, XBLOCK=1, num_warps=1, num_stages=1):
    out_ptr1 = torch.empty_strided((777, 555), (555, 1), dtype=torch.int64, device=x_1.device)
    grid = (triton.cdiv(777, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr1, 777, 555, XBLOCK=XBLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
