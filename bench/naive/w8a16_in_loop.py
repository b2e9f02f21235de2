"""fp16 activations and int8 weights: each tile of weights is scaled by its channel in the loop."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 2048, "N": 4096, "K": 4096}]
HELD_OUT_SHAPES = [{"M": 130, "N": 264, "K": 200}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-1}


def reference(a, qweight, scales):
    return (a.float() @ (qweight.float() * scales.float()[None, :])).to(a.dtype)


def inputs(M=2048, N=4096, K=4096, device="cuda"):
    a = torch.randn(M, K, dtype=torch.float16, device=device)
    q = torch.randint(-128, 127, (K, N), dtype=torch.int8, device=device)
    s = torch.rand(N, dtype=torch.float16, device=device) * 0.01
    return a, q, s


@triton.jit
def w8a16_gemm(
    a_ptr,
    b_ptr,
    s_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0)
        s = tl.load(s_ptr + offs_bn)
        b_fp = b.to(tl.float32) * s[None, :].to(tl.float32)
        accumulator += tl.dot(a.to(tl.float32), b_fp, allow_tf32=False)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c = accumulator.to(tl.float16)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def kernel(a, qweight, scales):
    M, K = a.shape
    N = qweight.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = lambda META: (
        triton.cdiv(M, META["BLOCK_SIZE_M"]) * triton.cdiv(N, META["BLOCK_SIZE_N"]),
    )
    w8a16_gemm[grid](
        a,
        qweight,
        scales,
        c,
        M,
        N,
        K,
        a.stride(0),
        a.stride(1),
        qweight.stride(0),
        qweight.stride(1),
        c.stride(0),
        c.stride(1),
        BLOCK_SIZE_M=32,
        BLOCK_SIZE_N=32,
        BLOCK_SIZE_K=32,
    )
    return c
