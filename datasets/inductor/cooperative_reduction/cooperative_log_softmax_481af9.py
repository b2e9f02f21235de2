"""Cooperative reduction by Inductor: of cooperative_log_softmax, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import math as tl_math

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8],
    "R0_BLOCK": [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "RSPLIT": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.1}


@triton.jit
def fused_kernel(in_ptr0, out_ptr2, sem_ptr, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr, RSPLIT : tl.constexpr):
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
    _tmp3_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp3_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 100003*x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])

        _tmp3_max_next, _tmp3_sum_next = triton_helpers.online_softmax_combine(
            _tmp3_max, _tmp3_sum, tmp2, False
        )

        _tmp3_max = tl.where(r0_mask & xmask, _tmp3_max_next, _tmp3_max)
        _tmp3_sum = tl.where(r0_mask & xmask, _tmp3_sum_next, _tmp3_sum)

    tmp3, tmp4 = triton_helpers.online_softmax_reduce(
        _tmp3_max, _tmp3_sum, 1, False)
    tmp3 = tmp3[:, None]
    tmp4 = tmp4[:, None]
    if HAS_RSPLIT:
        tmp3_ws = (ws_ptr + 0).to(tl.pointer_type(tl.float32))
        tl.store(tmp3_ws + (xindex * RSPLIT + rsplit_id), tmp3, xindex < xnumel)
        tmp4_ws = (ws_ptr + 1280).to(tl.pointer_type(tl.float32))
        tl.store(tmp4_ws + (xindex * RSPLIT + rsplit_id), tmp4, xindex < xnumel)
    if HAS_RSPLIT:
        triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if HAS_RSPLIT:
        tmp3_peers = tl.load(tmp3_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, float("-inf")))
        tmp4_peers = tl.load(tmp4_ws + (xindex * RSPLIT + rsplit_arange), rsplit_mask, eviction_policy='evict_first', other=triton_helpers.if_mask(rsplit_mask, 0))

        tmp3, tmp4 = triton_helpers.online_softmax_reduce(
            tmp3_peers, tmp4_peers, 1, False)
        tmp3 = tmp3[:, None]
        tmp4 = tmp4[:, None]
    for r0_offset in tl.range(rsplit_start, rsplit_end, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp5 = tl.load(in_ptr0 + (r0_1 + 100003*x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp6 = tmp5.to(tl.float32)
        tmp7 = tmp6 - tmp3
        tmp8 = tl_math.log(tmp4)
        tmp9 = tmp7 - tmp8
        tmp10 = tmp9.to(tl.float32)
        tl.store(out_ptr2 + (r0_1 + 100032*x0), tmp10, r0_mask & xmask)


def valid(params, shape):
    values = params["XBLOCK"] * params["R0_BLOCK"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and (params["RSPLIT"] * triton.cdiv(5, params["XBLOCK"])) <= 132


def inputs(device="cuda"):
    x_1 = torch.randn((5, 100003), dtype=torch.float16, device=device)
    return (x_1,)


def reference(x_1):
    convert_element_type = x_1.to(torch.float32)
    prepare_softmax_online_default = convert_element_type.amax(1, keepdim=True), (convert_element_type - convert_element_type.amax(1, keepdim=True)).exp().sum(1, keepdim=True)
    getitem = prepare_softmax_online_default[0]
    getitem_1 = prepare_softmax_online_default[1]
    sub_tensor = aten.sub.Tensor(convert_element_type, getitem)
    log = aten.log.default(getitem_1)
    sub_1 = aten.sub.Tensor(sub_tensor, log)
    convert_element_type_1 = sub_1.to(torch.float16)
    return convert_element_type_1


def kernel(x_1, *, XBLOCK=1, R0_BLOCK=2048, RSPLIT=16, num_warps=16, num_stages=1):
    out_ptr2 = torch.empty_strided((5, 100003), (100032, 1), dtype=torch.float16, device=x_1.device)
    sem_ptr = torch.zeros(5, dtype=torch.uint32, device=x_1.device)
    ws_ptr = torch.empty(2560, dtype=torch.uint8, device=x_1.device)
    grid = (RSPLIT, triton.cdiv(5, XBLOCK),)
    fused_kernel[grid](x_1, out_ptr2, sem_ptr, ws_ptr, 5, 100003, XBLOCK=XBLOCK, R0_BLOCK=R0_BLOCK, RSPLIT=RSPLIT, num_warps=num_warps, num_stages=num_stages, launch_cooperative_grid=True)
    return out_ptr2
