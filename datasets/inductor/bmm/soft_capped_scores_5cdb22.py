"""Bmm by Inductor: of soft_capped_scores, float16."""

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.triton_helpers import libdevice

aten = torch.ops.aten

KIND = "inductor"
SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128],
    "GROUP_M": [1, 4, 8, 16],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4, 5],
}
TOLERANCE = {"rtol": 0.01, "atol": 0.1}


@triton.jit
def fused_kernel(arg_A, arg_B, out_ptr1, BLOCK_M : tl.constexpr, BLOCK_N : tl.constexpr, BLOCK_K : tl.constexpr, GROUP_M : tl.constexpr):
    EVEN_K : tl.constexpr = False
    USE_FAST_ACCUM : tl.constexpr = False
    ACC_TYPE : tl.constexpr = tl.float32
    ALLOW_TF32 : tl.constexpr = False
    INDEX_DTYPE : tl.constexpr = tl.int32
    A = arg_A
    B = arg_B

    M = 300
    N = 333
    K = 200
    BATCH = 7

    stride_aq = 60000
    stride_am = 200
    stride_ak = 1

    stride_bq = 66600
    stride_bk = 333
    stride_bn = 1
    pid = tl.program_id(0).to(INDEX_DTYPE)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * grid_n
    group_id = pid // width
    group_size = min(grid_m - group_id * GROUP_M, GROUP_M)
    pid_m = group_id * GROUP_M + (pid % group_size)
    pid_n = (pid % width) // (group_size)
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)

    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M).to(INDEX_DTYPE)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N).to(INDEX_DTYPE)
    if ((stride_am == 1 and stride_ak == M) or (stride_am == K and stride_ak == 1)) and (M >= BLOCK_M and K > 1):
        ram = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    else:
        ram = rm % M
    if ((stride_bk == 1 and stride_bn == K) or (stride_bk == N and stride_bn == 1)) and (N >= BLOCK_N and K > 1):
        rbn = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    else:
        rbn = rn % N

    rk = tl.arange(0, BLOCK_K).to(INDEX_DTYPE)
    idx_q = (tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)).to(INDEX_DTYPE)
    idx_q_clamped = tl.minimum(idx_q, BATCH - 1)
    A = A + (ram[:, None] * stride_am + rk[None, :] * stride_ak + idx_q_clamped*stride_aq)
    B = B + (rk[:, None] * stride_bk + rbn[None, :] * stride_bn + idx_q_clamped*stride_bq)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)
    for k in range(K, 0, -BLOCK_K):
        if EVEN_K:
            a = tl.load(A)
            b = tl.load(B)
        else:
            a = tl.load(A, mask=rk[None, :] < k, other=0.)
            b = tl.load(B, mask=rk[:, None] < k, other=0.)
        acc += tl.dot(a, b, allow_tf32=ALLOW_TF32)
        A += BLOCK_K * stride_ak
        B += BLOCK_K * stride_bk
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M).to(INDEX_DTYPE)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N).to(INDEX_DTYPE)
    idx_q = (tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)).to(INDEX_DTYPE)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N) & (idx_q < BATCH)
    xindex = idx_n + 333*idx_m + 99900*idx_q
    tmp0 = acc.to(tl.float16)
    tmp1 = tmp0.to(tl.float32)
    x4 = (xindex % 99900)
    tmp2 = tl.full([1], 0.03333333333333333, tl.float32)
    tmp3 = tmp1 * tmp2
    tmp4 = libdevice.tanh(tmp3)
    tmp5 = tl.full([1], 30.0, tl.float32)
    tmp6 = tmp4 * tmp5
    tl.store(out_ptr1 + (x4 + 99904*idx_q), tmp6, mask)


def valid(params, shape):
    values = params["BLOCK_M"] * params["BLOCK_N"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and params["num_stages"] * params["BLOCK_K"] * 2 * (params["BLOCK_M"] + params["BLOCK_N"]) <= 232448


def inputs(device="cuda"):
    q_1 = torch.randn((7, 300, 200), dtype=torch.float16, device=device)
    k_1 = torch.randn((7, 200, 333), dtype=torch.float16, device=device)
    return (q_1, k_1,)


def reference(q_1, k_1):
    bmm = aten.bmm.default(q_1, k_1)
    bmm = bmm.float()
    div = aten.div.Tensor(bmm, 30)
    tanh = aten.tanh.default(div)
    mul = aten.mul.Tensor(tanh, 30)
    return mul.to(torch.float16)


def kernel(q_1, k_1, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, num_warps=8, num_stages=4):
    out_ptr1 = torch.empty_strided((7, 300, 333), (99904, 333, 1), dtype=torch.float16, device=q_1.device)
    grid = (triton.cdiv(300, BLOCK_M)*triton.cdiv(333, BLOCK_N), 7, 1,)
    fused_kernel[grid](q_1, k_1, out_ptr1, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
