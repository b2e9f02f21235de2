"""Cooperative reduction by Inductor: of cooperative_extremes, float16."""

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
TOLERANCE = {"rtol": 0.01, "atol": 0.04}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, out_ptr1, sem_ptr, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr, RSPLIT : tl.constexpr):
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
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    _tmp4 = tl.full([XBLOCK, R0_BLOCK], float("inf"), tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 100003*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp3 = triton_helpers.maximum(_tmp2, tmp1)
        _tmp2 = tl.where(r0_mask & xmask, tmp3, _tmp2)
        tmp5 = triton_helpers.minimum(_tmp4, tmp1)
        _tmp4 = tl.where(r0_mask & xmask, tmp5, _tmp4)
    tmp2 = triton_helpers.max2(_tmp2, 1)[:, None]
    if HAS_RSPLIT:
        tmp2_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp2_ws + (xindex * RSPLIT + rsplit_id), tmp2, xindex < xnumel)
    tmp4 = triton_helpers.min2(_tmp4, 1)[:, None]
    if HAS_RSPLIT:
        tmp4_ws = (ws_ptr + 1280).to(tl.pointer_type(tl.float32))
        tl.store(tmp4_ws + (xindex * RSPLIT + rsplit_id), tmp4, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp2_peers = tl.load(tmp2_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, float("-inf")))
        tmp2 = triton_helpers.max2(tmp2_peers, 1)[:, None]
    if rsplit_id == (0 % RSPLIT):
        tl.store(out_ptr0 + (x0), tmp2, xmask)
    if HAS_RSPLIT:
        tmp4_peers = tl.load(tmp4_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, float("inf")))
        tmp4 = triton_helpers.min2(tmp4_peers, 1)[:, None]
    if rsplit_id == (1 % RSPLIT):
        tl.store(out_ptr1 + (x0), tmp4, xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["RSPLIT"] * triton.cdiv(5, params["XBLOCK"])) <= 132


def inputs(device="cuda"):
    x_1 = torch.randn((5, 100003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    amax = aten.amax.default(x_1, [1])
    amin = aten.amin.default(x_1, [1])
    return amax, amin


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, RSPLIT=16, num_warps=16, num_stages=1):
    out_ptr0 = torch.empty_strided((5,), (1,), dtype=torch.float16, device=x_1.device)
    out_ptr1 = torch.empty_strided((5,), (1,), dtype=torch.float16, device=x_1.device)
    sem_ptr = torch.zeros(5, dtype=torch.uint32, device=x_1.device)
    ws_ptr = torch.empty(2560, dtype=torch.uint8, device=x_1.device)
    grid = (RSPLIT, triton.cdiv(5, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr0, out_ptr1, sem_ptr, ws_ptr, 5, 100003, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, RSPLIT=RSPLIT, num_warps=num_warps, num_stages=num_stages, launch_cooperative_grid=True)
    return out_ptr0, out_ptr1
