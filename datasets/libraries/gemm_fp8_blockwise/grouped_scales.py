"""The block-scaled fp8 product of serving libraries: a scale a step of the sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8_blockwise import problem
from solkit.datasets.zoo.gemm_fp8_blockwise.problem import (
    BLOCK,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "matmul"
SHAPES = [problem.SHAPES[place] for place in (1, 2, 6)]
SPACE = {
    "BLOCK_SIZE_M": [16, 32, 64, 128],
    "BLOCK_SIZE_N": [32, 64, 128],
    "GROUP_SIZE_M": [1, 16, 32],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


@triton.jit
def _w8a8_block_fp8_matmul(
    A, B, C, As, Bs, M, N, K, group_n, group_k, stride_am, stride_ak, stride_bk, stride_bn,
    stride_cm, stride_cn, stride_As_m, stride_As_k, stride_Bs_k, stride_Bs_n,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BLOCK_SIZE_M), tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    first_pid_m = pid // num_pid_in_group * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (pid % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = A + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = B + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    As_ptrs = As + offs_am * stride_As_m
    Bs_ptrs = Bs + offs_bn // group_n * stride_Bs_n
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        offs_ks = k * BLOCK_SIZE_K // group_k
        a_s = tl.load(As_ptrs + offs_ks * stride_As_k)
        b_s = tl.load(Bs_ptrs + offs_ks * stride_Bs_k)
        accumulator += tl.dot(a, b) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = C + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator.to(C.dtype.element_ty), mask=c_mask)


def valid(params, shape):
    tile = params["BLOCK_SIZE_M"] * params["BLOCK_SIZE_N"] / (32 * params["num_warps"])
    staged = (params["BLOCK_SIZE_M"] + params["BLOCK_SIZE_N"]) * BLOCK * params["num_stages"]
    return 4 <= tile <= 64 and staged <= 200_000 and params["BLOCK_SIZE_M"] <= 2 * shape["M"]


def kernel(x, w, x_scale, w_scale, dtype, *, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, GROUP_SIZE_M=32,
           num_warps=4, num_stages=3):  # fmt: skip
    M, K = x.shape
    N = w.shape[0]
    c = torch.empty(M, N, dtype=dtype, device=x.device)
    _w8a8_block_fp8_matmul[(triton.cdiv(M, BLOCK_SIZE_M) * triton.cdiv(N, BLOCK_SIZE_N),)](
        x, w, c, x_scale, w_scale, M, N, K, BLOCK, BLOCK, x.stride(0), x.stride(1), w.stride(1),
        w.stride(0), c.stride(0), c.stride(1), x_scale.stride(0), x_scale.stride(1),
        w_scale.stride(1), w_scale.stride(0), BLOCK_SIZE_M=BLOCK_SIZE_M,
        BLOCK_SIZE_N=BLOCK_SIZE_N, BLOCK_SIZE_K=BLOCK, GROUP_SIZE_M=GROUP_SIZE_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
