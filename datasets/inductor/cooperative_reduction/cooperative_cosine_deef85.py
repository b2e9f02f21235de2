"""Cooperative reduction by Inductor: of cooperative_cosine, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "RSPLIT": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 5e-07}


@triton.jit
def fused_kernel(in_ptr0, in_ptr1, out_ptr4, sem_ptr, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr, RSPLIT : tl.constexpr):
    xnumel = 5
    r0_numel = 50021
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    RSPLIT_NEXT_POWER_OF_2: tl.constexpr = triton_helpers.constexpr_next_power_of_2(RSPLIT)
    RSPLIT_IS_POWER_OF_2: tl.constexpr = RSPLIT == RSPLIT_NEXT_POWER_OF_2
    HAS_RSPLIT: tl.constexpr = RSPLIT > 1
    rsplit_id = tl.program_id(0)
    num_rblocks = (rnumel + RBLOCK - 1) // RBLOCK
    rsplit_chunk = (num_rblocks + RSPLIT - 1) // RSPLIT * RBLOCK
    rsplit_start = rsplit_chunk * rsplit_id
    rsplit_end = rsplit_chunk * (rsplit_id + 1)
    rsplit_end = tl.where(rsplit_end < rnumel, rsplit_end, rnumel)
    xoffset = tl.program_id(1) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    rsplit_arange = tl.arange(0, RSPLIT_NEXT_POWER_OF_2)[None, :]
    rsplit_mask = xmask if RSPLIT_IS_POWER_OF_2 else ((rsplit_arange < RSPLIT) & xmask)
    x0 = xindex
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    if HAS_RSPLIT:
        tmp3_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp3_ws + (xindex * RSPLIT + rsplit_id), tmp3, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp3_peers = tl.load(tmp3_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp3 = tl.sum(tmp3_peers, 1)[:, None]
    _tmp8 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp5 = tl.load(in_ptr1 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp6 = tmp5 * tmp5
        tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
        tmp9 = _tmp8 + tmp7
        _tmp8 = tl.where(r0_mask & xmask, tmp9, _tmp8)
    tmp8 = tl.sum(_tmp8, 1)[:, None]
    if HAS_RSPLIT:
        tmp8_ws = (ws_ptr + 1280).to(tl.pointer_type(tl.float32))
        tl.store(tmp8_ws + (xindex * RSPLIT + rsplit_id), tmp8, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp8_peers = tl.load(tmp8_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp8 = tl.sum(tmp8_peers, 1)[:, None]
    tmp10 = tl.sqrt_rn(tmp8)
    tmp11 = tl.full([1, 1], 1e-08, tl.float32)
    tmp12 = triton_helpers.maximum(tmp10, tmp11)
    tmp13 = tl.sqrt_rn(tmp3)
    tmp14 = triton_helpers.maximum(tmp13, tmp11)
    _tmp21 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp15 = tl.load(in_ptr1 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp17 = tl.load(in_ptr0 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp16 = (tmp15 / tmp12)
        tmp18 = (tmp17 / tmp14)
        tmp19 = tmp16 * tmp18
        tmp20 = tl.broadcast_to(tmp19, [XBLOCK, R0_BLOCK])
        tmp22 = _tmp21 + tmp20
        _tmp21 = tl.where(r0_mask & xmask, tmp22, _tmp21)
    tmp21 = tl.sum(_tmp21, 1)[:, None]
    if HAS_RSPLIT:
        tmp21_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp21_ws + (xindex * RSPLIT + rsplit_id), tmp21, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp21_peers = tl.load(tmp21_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp21 = tl.sum(tmp21_peers, 1)[:, None]
    if rsplit_id == (4 % RSPLIT):
        tl.store(out_ptr4 + (x0), tmp21, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["RSPLIT"] * triton.cdiv(5, params["XBLOCK"])) <= 132


def inputs(device="cuda"):
    y_1 = torch.randn((5, 50021), dtype=torch.float32, device=device)
    x_1 = torch.randn((5, 50021), dtype=torch.float32, device=device)
    return (y_1, x_1,)


def reference(y_1, x_1):
    pow_3 = aten.pow.Tensor_Scalar(y_1, 2)
    sum_2 = aten.sum.dim_IntList(pow_3, [1], True)
    pow_4 = aten.pow.Tensor_Scalar(sum_2, 0.5)
    pow_1 = aten.pow.Tensor_Scalar(x_1, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    scalar_tensor = aten.scalar_tensor.default(1e-08, dtype=torch.float32, device=y_1.device)
    clamp_min = aten.clamp_min.Tensor(pow_2, scalar_tensor)
    copy_ = aten.copy_.default(pow_2, clamp_min)
    clamp_min_1 = aten.clamp_min.Tensor(pow_4, scalar_tensor)
    copy__1 = aten.copy_.default(pow_4, clamp_min_1)
    div = aten.div.Tensor(y_1, copy__1)
    div_1 = aten.div.Tensor(x_1, copy_)
    mul = aten.mul.Tensor(div_1, div)
    sum_3 = aten.sum.dim_IntList(mul, [1])
    return sum_3


def kernel(y_1, x_1, *, XBLOCK=1, R0_BLOCK=2048, RSPLIT=16, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((5,), (1,), dtype=torch.float32, device=y_1.device)
    sem_ptr = torch.zeros(5, dtype=torch.uint32, device=y_1.device)
    ws_ptr = torch.empty(2560, dtype=torch.uint8, device=y_1.device)
    grid = (RSPLIT, triton.cdiv(5, XBLOCK),)
    fused_kernel[grid](y_1, x_1, out_ptr4, sem_ptr, ws_ptr, 5, 50021, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, RSPLIT=RSPLIT, num_warps=num_warps, num_stages=num_stages, launch_cooperative_grid=True)
    return out_ptr4
