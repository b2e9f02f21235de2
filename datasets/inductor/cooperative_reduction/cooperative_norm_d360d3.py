"""Cooperative reduction by Inductor: of cooperative_norm, float32."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "RSPLIT": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, out_ptr1, sem_ptr, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr, RSPLIT : tl.constexpr):
    xnumel = 1
    r0_numel = 1999993
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
    xmask = tl.full([XBLOCK], True, tl.int1)[:, None]
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    rsplit_arange = tl.arange(0, RSPLIT_NEXT_POWER_OF_2)[None, :]
    if RSPLIT_IS_POWER_OF_2:
        rsplit_mask: tl.constexpr = None
    else:
        rsplit_mask = rsplit_arange < RSPLIT
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_0 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_0), r0_mask, eviction_policy='evict_first', other=0.0)
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask, tmp4, _tmp3)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    if HAS_RSPLIT:
        tmp3_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp3_ws + (xindex * RSPLIT + rsplit_id), tmp3, None)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp3_peers = tl.load(tmp3_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))
        tmp3 = tl.sum(tmp3_peers, 1)[:, None]
    tmp5 = tl.sqrt_rn(tmp3)
    if rsplit_id == (1 % RSPLIT):
        tl.store(out_ptr1 + (tl.full([1, 1], 0, tl.int32).broadcast_to(XBLOCK, 1)), tmp5, None)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["RSPLIT"] * triton.cdiv(1, params["XBLOCK"])) <= 132


def inputs(device="cuda"):
    x_1 = torch.randn((1999993,), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    mul = aten.mul.Tensor(x_1, x_1)
    sum_1 = aten.sum.default(mul)
    sqrt = aten.sqrt.default(sum_1)
    return sqrt


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, RSPLIT=64, num_warps=16, num_stages=1):
    out_ptr1 = torch.empty_strided((), (), dtype=torch.float32, device=x_1.device)
    sem_ptr = torch.zeros(1, dtype=torch.uint32, device=x_1.device)
    ws_ptr = torch.empty(256, dtype=torch.uint8, device=x_1.device)
    grid = (RSPLIT, triton.cdiv(1, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr1, sem_ptr, ws_ptr, 1, 1999993, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, RSPLIT=RSPLIT, num_warps=num_warps, num_stages=num_stages, launch_cooperative_grid=True)
    return out_ptr1
