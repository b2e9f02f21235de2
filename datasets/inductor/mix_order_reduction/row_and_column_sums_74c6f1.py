"""Mix order reduction by Inductor: of row_and_column_sums, float32."""

import torch
import triton
import triton.language as tl

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
    "RSPLIT_SIZE": [16, 32, 64, 128],
    "NUM_STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}
TOLERANCE = {"rtol": 0.0001, "atol": 0.01}


@triton.jit
def fused_kernel(in_ptr0, out_ptr0, ws_ptr, xnumel, r0_numel, XBLOCK : tl.constexpr, RSPLIT_SIZE : tl.constexpr, NUM_STAGES : tl.constexpr):
    xnumel = 16384
    r0_numel = 512
    R0_BLOCK: tl.constexpr = 512
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * RSPLIT_SIZE
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = tl.full([XBLOCK], True, tl.int1)[:, None]
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = tl.full([R0_BLOCK], True, tl.int1)[None, :]
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    accum0 = tl.full([R0_BLOCK], 0, tl.float32)[None, :]
    split_size = min(RSPLIT_SIZE, xnumel - xoffset)
    for _ in tl.range(0, split_size, XBLOCK, num_stages=NUM_STAGES):
        x0 = xindex
        xindex += XBLOCK
        tmp0 = tl.load(in_ptr0 + (r0_1 + 512*x0), None, eviction_policy='evict_first')
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp3 = tl.sum(tmp1, 1)[:, None].to(tl.float32)
        tl.store(out_ptr0 + (x0), tmp3, None)
        tmp4 = tl.sum(tmp0, 0)
        tmp5 = accum0 + tmp4
        accum0 = tmp5
    tl.store(ws_ptr + (tl.program_id(0) + 0 * tl.num_programs(0)) * r0_numel + r0_index, accum0, r0_mask)


def valid(params, shape):
    values = params["XBLOCK"] * 512
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and params["RSPLIT_SIZE"] % params["XBLOCK"] == 0


def inputs(device="cuda"):
    x_1 = torch.randn((16384, 512), dtype=torch.float32, device=device)
    return (x_1,)


def reference(x_1):
    sum_1 = aten.sum.dim_IntList(x_1, [1])
    sum_2 = aten.sum.dim_IntList(x_1, [0])
    return sum_1, sum_2


def kernel(x_1, *, XBLOCK=4, RSPLIT_SIZE=16, NUM_STAGES=1, num_warps=2, num_stages=1):
    out_ptr0 = torch.empty_strided((16384,), (1,), dtype=torch.float32, device=x_1.device)
    ws_ptr = torch.empty(524288, dtype=torch.float32, device=x_1.device)
    grid = (triton.cdiv(16384, RSPLIT_SIZE),)
    fused_kernel[grid](x_1, out_ptr0, ws_ptr, 16384, 512, XBLOCK=XBLOCK, RSPLIT_SIZE=RSPLIT_SIZE, NUM_STAGES=NUM_STAGES, num_warps=num_warps, num_stages=num_stages)
    parts = ws_ptr[:1 * grid[0] * 512]
    parts = parts.view(1, grid[0], 512)
    buf2 = parts[0].sum(0).view((512,)).to(torch.float32)
    return out_ptr0, buf2
