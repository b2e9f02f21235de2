"""Mm by Inductor: of product_int8_scaled, float16."""

import torch
import triton
import triton.language as tl

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
TOLERANCE = {"rtol": 0.01, "atol": 0.2}


@triton.jit
def fused_kernel(arg_A, arg_B, in_ptr2, out_ptr1, BLOCK_M : tl.constexpr, BLOCK_N : tl.constexpr, BLOCK_K : tl.constexpr, GROUP_M : tl.constexpr):
    EVEN_K : tl.constexpr = False
    USE_FAST_ACCUM : tl.constexpr = False
    ACC_TYPE : tl.constexpr = tl.int32
    ALLOW_TF32 : tl.constexpr = True
    INDEX_DTYPE : tl.constexpr = tl.int32
    A = arg_A
    B = arg_B

    M = 1000
    N = 1504
    K = 712
    if M * N == 0:
        return
    stride_am = 712
    stride_ak = 1
    stride_bk = 1504
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
        offs_a_m = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    else:
        offs_a_m = rm % M
    if ((stride_bk == 1 and stride_bn == K) or (stride_bk == N and stride_bn == 1)) and (N >= BLOCK_N and K > 1):
        offs_b_n = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    else:
        offs_b_n = rn % N
    offs_k = tl.arange(0, BLOCK_K).to(INDEX_DTYPE)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)

    for k_idx in range(0, tl.cdiv(K, BLOCK_K)):
        
        a_mask = offs_k[None, :] < (K - k_idx * BLOCK_K)
        b_mask = offs_k[:, None] < (K - k_idx * BLOCK_K)
        
        a_k_idx_vals = offs_k[None, :] + (k_idx * BLOCK_K)
        b_k_idx_vals = offs_k[:, None] + (k_idx * BLOCK_K)

        idx_m = offs_a_m[:, None]
        idx_n = a_k_idx_vals
        xindex = idx_n + 712*idx_m
        a = tl.load(A + (xindex), mask=a_mask, other=0.0)

        idx_m = b_k_idx_vals
        idx_n = offs_b_n[None, :]
        xindex = idx_n + 1504*idx_m
        b = tl.load(B + (xindex), mask=b_mask, other=0.0)

        
        acc += tl.dot(a, b, allow_tf32=ALLOW_TF32, out_dtype=ACC_TYPE)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M).to(INDEX_DTYPE)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N).to(INDEX_DTYPE)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    xindex = idx_n + 1504*idx_m
    tmp1 = tl.load(in_ptr2 + (tl.broadcast_to(idx_n, [BLOCK_M, BLOCK_N])), mask, eviction_policy='evict_last').to(tl.float32)
    tmp0 = acc.to(tl.float32)
    tmp2 = tmp1.to(tl.float32)
    tmp3 = tl.full([1], 0.001, tl.float32)
    tmp4 = tmp2 * tmp3
    tmp5 = tmp0 * tmp4
    tmp6 = tmp5.to(tl.float32)
    tl.store(out_ptr1 + (tl.broadcast_to(idx_n + 1536*idx_m, [BLOCK_M, BLOCK_N])), tmp6, mask)


def valid(params, shape):
    values = params["BLOCK_M"] * params["BLOCK_N"]
    threads = 32 * params["num_warps"]
    return values <= 128 * threads and threads <= max(32, values) and params["num_stages"] * params["BLOCK_K"] * 2 * (params["BLOCK_M"] + params["BLOCK_N"]) <= 232448


def inputs(device="cuda"):
    x_1 = torch.randint(-60, 60, (1000, 712), dtype=torch.int8, device=device)
    w_1 = torch.randint(-60, 60, (712, 1504), dtype=torch.int8, device=device)
    s_1 = torch.randn((1504,), dtype=torch.float16, device=device)
    return (x_1, w_1, s_1,)


def reference(x_1, w_1, s_1):
    _int_mm = aten._int_mm.default(x_1, w_1)
    convert_element_type = s_1.to(torch.float32)
    mul = aten.mul.Tensor(convert_element_type, 0.001)
    mul_1 = aten.mul.Tensor(_int_mm, mul)
    convert_element_type_1 = mul_1.to(torch.float16)
    return convert_element_type_1


def kernel(x_1, w_1, s_1, *, BLOCK_M=64, BLOCK_N=32, BLOCK_K=32, GROUP_M=8, num_warps=8, num_stages=5):
    out_ptr1 = torch.empty_strided((1000, 1504), (1536, 1), dtype=torch.float16, device=x_1.device)
    grid = (triton.cdiv(1000, BLOCK_M)*triton.cdiv(1504, BLOCK_N), 1, 1,)
    fused_kernel[grid](x_1, w_1, s_1, out_ptr1, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M, num_warps=num_warps, num_stages=num_stages)
    return out_ptr1
