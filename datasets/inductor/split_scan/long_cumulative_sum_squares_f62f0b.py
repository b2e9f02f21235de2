"""Split scan by Inductor: of long_cumulative_sum_squares, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "R0_BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.07}


@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0

@triton.jit
def fused_kernel(in_ptr0, out_ptr1, ws_ptr, xnumel, r0_numel, R0_BLOCK : tl.constexpr):
    xnumel = 1
    XBLOCK: tl.constexpr = 1
    r0_numel = 1000000
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(1) * XBLOCK
    xindex = tl.full([1], xoffset, tl.int32)
    xmask = tl.full([R0_BLOCK], True, tl.int1)
    r0_offset = tl.program_id(0) * R0_BLOCK
    r0_index = r0_offset + tl.arange(0, R0_BLOCK)[:]
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_0 = r0_index
    tmp0 = tl.load(in_ptr0 + (r0_0), r0_mask, other=0.0)
    tmp1 = tmp0 * tmp0
    tmp2 = tmp1.to(tl.float32)
    tmp3 = tl.broadcast_to(tmp2, [R0_BLOCK])
    tmp4 = tl.reduce(tmp3, 0, _triton_helper_fn_add0)
    tmp5 = triton_helpers.exclusive_scan_decoupled_lookback(
        ws_ptr.to(tl.pointer_type(tl.uint64)) + xoffset * 1 * tl.num_programs(0),
        tmp4,
        tl.program_id(0),
        _triton_helper_fn_add0,
        DTYPE_VALUE_AS_UINT=tl.uint32,
        DTYPE_PACK=tl.uint64,
    )
    tmp6 = tl.associative_scan(tmp3, 0, _triton_helper_fn_add0)
    tmp7 = _triton_helper_fn_add0(tmp5, tmp6)
    tmp8 = tl.where(roffset == 0, tmp6, tmp7)
    tmp9 = tl.sqrt_rn(tmp8)
    tl.store(out_ptr1 + (tl.broadcast_to(r0_0, [R0_BLOCK])), tmp9, r0_mask)


def valid(params, shape):
    values = params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values)


def inputs(device="cuda"):
    x_1 = torch.randn((1000000,), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    mul = aten.mul.Tensor(x_1, x_1)
    cumsum = aten.cumsum.default(mul, -1)
    sqrt = aten.sqrt.default(cumsum)
    return sqrt


def kernel(x_1, *, R0_BLOCK=2048, num_warps=16, num_stages=1):
    out_ptr1 = torch.empty_strided((1000000,), (1,), dtype=torch.float32, device=x_1.device)
    ws_ptr = torch.zeros(31256, dtype=torch.uint8, device=x_1.device)
    grid = (triton.cdiv(1000000, R0_BLOCK), 1,)
    fused_kernel[grid](x_1, out_ptr1, ws_ptr, 1, 1000000, R0_BLOCK=R0_BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
