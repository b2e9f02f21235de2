"""Cooperative reduction by Inductor: of cooperative_variance, float32."""

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
TOLERANCE = {"rtol": 0.0001, "atol": 0.0001}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, out_ptr2, sem_ptr, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr, RSPLIT : tl.constexpr):
    xnumel = 5
    r0_numel = 100003
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
    tmp2_mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_weight = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 100003*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp2_mean_next, tmp2_m2_next, tmp2_weight_next = triton_helpers.welford_reduce(
            tmp1, tmp2_mean, tmp2_m2, tmp2_weight, roffset == 0
        )
        tmp2_mean = tl.where(r0_mask & xmask, tmp2_mean_next, tmp2_mean)
        tmp2_m2 = tl.where(r0_mask & xmask, tmp2_m2_next, tmp2_m2)
        tmp2_weight = tl.where(r0_mask & xmask, tmp2_weight_next, tmp2_weight)
    tmp3, tmp4, tmp5 = triton_helpers.welford(tmp2_mean, tmp2_m2, tmp2_weight, 1)
    tmp2 = tmp3[:, None]
    tmp6 = tmp4[:, None]
    tmp7 = tmp5[:, None]
    if HAS_RSPLIT:
        tmp2_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp2_ws + (xindex * RSPLIT + rsplit_id), tmp2, xindex < xnumel)
        tmp6_ws = (ws_ptr + 1280).to(tl.pointer_type(tl.float32))
        tl.store(tmp6_ws + (xindex * RSPLIT + rsplit_id), tmp6, xindex < xnumel)
        tmp7_ws = (ws_ptr + 2560).to(tl.pointer_type(tl.float32))
        tl.store(tmp7_ws + (xindex * RSPLIT + rsplit_id), tmp7, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp2_peers = tl.load(tmp2_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp6_peers = tl.load(tmp6_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp7_peers = tl.load(tmp7_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp8, tmp9, tmp10 = triton_helpers.welford(tmp2_peers, tmp6_peers, tmp7_peers, 1)
        tmp2 = tmp8[:, None]
        tmp6 = tmp9[:, None]
        tmp7 = tmp10[:, None]
    if rsplit_id == (0 % RSPLIT):
        tl.store(out_ptr0 + (x0), tmp2, xmask)
    tmp11 = tl.full([1, 1], 100002.0, tl.float32)
    tmp12 = (tmp6 / tmp11)
    if rsplit_id == (2 % RSPLIT):
        tl.store(out_ptr2 + (x0), tmp12, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["RSPLIT"] * triton.cdiv(5, params["XBLOCK"])) <= 132


def inputs(device="cuda"):
    x_1 = torch.randn((5, 100003), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    var_mean = aten.var_mean.correction(x_1, [1], correction=1)
    getitem = var_mean[0]
    getitem_1 = var_mean[1]
    return getitem_1, getitem


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, RSPLIT=16, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((5,), (1,), dtype=torch.float32, device=x_1.device)
    out_ptr2 = torch.empty_strided((5,), (1,), dtype=torch.float32, device=x_1.device)
    sem_ptr = torch.zeros(5, dtype=torch.uint32, device=x_1.device)
    ws_ptr = torch.empty(3840, dtype=torch.uint8, device=x_1.device)
    grid = (RSPLIT, triton.cdiv(5, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, out_ptr2, sem_ptr, ws_ptr, 5, 100003, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, RSPLIT=RSPLIT, num_warps=num_warps, num_stages=num_stages, launch_cooperative_grid=True)
    return out_ptr0, out_ptr2
