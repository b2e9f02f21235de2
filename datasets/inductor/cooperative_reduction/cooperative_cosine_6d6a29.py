"""Cooperative reduction by Inductor: of cooperative_cosine, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 5e-05}


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
    _tmp4 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tmp1 * tmp1
        tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
        tmp5 = _tmp4 + tmp3
        _tmp4 = tl.where(r0_mask & xmask, tmp5, _tmp4)
    tmp4 = tl.sum(_tmp4, 1)[:, None]
    if HAS_RSPLIT:
        tmp4_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp4_ws + (xindex * RSPLIT + rsplit_id), tmp4, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp4_peers = tl.load(tmp4_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp4 = tl.sum(tmp4_peers, 1)[:, None]
    tmp6 = tl.sqrt_rn(tmp4)
    tmp7 = tmp6.to(tl.float32)
    tmp8 = tmp7.to(tl.float32)
    tmp9 = tl.full([1, 1], 1e-08, tl.float32)
    tmp10 = triton_helpers.maximum(tmp8, tmp9)
    tmp11 = tmp10.to(tl.float32)
    _tmp16 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp12 = tl.load(in_ptr1 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp13 = tmp12.to(tl.float32)
        tmp14 = tmp13 * tmp13
        tmp15 = tl.broadcast_to(tmp14, [XBLOCK, R0_BLOCK])
        tmp17 = _tmp16 + tmp15
        _tmp16 = tl.where(r0_mask & xmask, tmp17, _tmp16)
    tmp16 = tl.sum(_tmp16, 1)[:, None]
    if HAS_RSPLIT:
        tmp16_ws = (ws_ptr + 1280).to(tl.pointer_type(tl.float32))
        tl.store(tmp16_ws + (xindex * RSPLIT + rsplit_id), tmp16, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp16_peers = tl.load(tmp16_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp16 = tl.sum(tmp16_peers, 1)[:, None]
    tmp18 = tl.sqrt_rn(tmp16)
    tmp19 = tmp18.to(tl.float32)
    tmp20 = tmp19.to(tl.float32)
    tmp21 = tl.full([1, 1], 1e-08, tl.float32)
    tmp22 = triton_helpers.maximum(tmp20, tmp21)
    tmp23 = tmp22.to(tl.float32)
    _tmp30 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp24 = tl.load(in_ptr0 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp26 = tl.load(in_ptr1 + (r0_1 + 50021*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp25 = (tmp24 / tmp11)
        tmp27 = (tmp26 / tmp23)
        tmp28 = tmp25 * tmp27
        tmp29 = tl.broadcast_to(tmp28, [XBLOCK, R0_BLOCK])
        tmp31 = _tmp30 + tmp29
        _tmp30 = tl.where(r0_mask & xmask, tmp31, _tmp30)
    tmp30 = tl.sum(_tmp30, 1)[:, None]
    if HAS_RSPLIT:
        tmp30_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp30_ws + (xindex * RSPLIT + rsplit_id), tmp30, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp30_peers = tl.load(tmp30_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp30 = tl.sum(tmp30_peers, 1)[:, None]
    if rsplit_id == (4 % RSPLIT):
        tl.store(out_ptr4 + (x0), tmp30, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["RSPLIT"] * triton.cdiv(5, params["XBLOCK"])) <= 132


def inputs(device="cuda"):
    x_1 = torch.randn((5, 50021), dtype=torch.float16, device=device)
    y_1 = torch.randn((5, 50021), dtype=torch.float16, device=device)
    return (x_1, y_1,)


def reference(x_1, y_1):
    convert_element_type_2 = y_1.to(torch.float32)
    pow_3 = aten.pow.Tensor_Scalar(convert_element_type_2, 2)
    sum_2 = aten.sum.dim_IntList(pow_3, [1], True)
    pow_4 = aten.pow.Tensor_Scalar(sum_2, 0.5)
    convert_element_type_3 = pow_4.clone()
    convert_element_type = x_1.to(torch.float32)
    pow_1 = aten.pow.Tensor_Scalar(convert_element_type, 2)
    sum_1 = aten.sum.dim_IntList(pow_1, [1], True)
    pow_2 = aten.pow.Tensor_Scalar(sum_1, 0.5)
    convert_element_type_1 = pow_2.clone()
    scalar_tensor = aten.scalar_tensor.default(1e-08, dtype=torch.float32, device=x_1.device)
    clamp_min = aten.clamp_min.Tensor(convert_element_type_1, scalar_tensor)
    copy_ = aten.copy_.default(convert_element_type_1, clamp_min)
    clamp_min_1 = aten.clamp_min.Tensor(convert_element_type_3, scalar_tensor)
    copy__1 = aten.copy_.default(convert_element_type_3, clamp_min_1)
    y_1 = y_1.float()
    div = aten.div.Tensor(y_1, copy__1)
    x_1 = x_1.float()
    div_1 = aten.div.Tensor(x_1, copy_)
    mul = aten.mul.Tensor(div_1, div)
    sum_3 = aten.sum.dim_IntList(mul, [1])
    return sum_3.to(torch.float16)


def kernel(x_1, y_1, *, XBLOCK=1, R0_BLOCK=2048, RSPLIT=16, num_warps=16, num_stages=1):
    out_ptr4 = torch.empty_strided((5,), (1,), dtype=torch.float16, device=x_1.device)
    sem_ptr = torch.zeros(5, dtype=torch.uint32, device=x_1.device)
    ws_ptr = torch.empty(2560, dtype=torch.uint8, device=x_1.device)
    grid = (RSPLIT, triton.cdiv(5, XBLOCK),)
    fused_kernel[grid](x_1, y_1, out_ptr4, sem_ptr, ws_ptr, 5, 50021, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, RSPLIT=RSPLIT, num_warps=num_warps, num_stages=num_stages, launch_cooperative_grid=True)
    return out_ptr4
