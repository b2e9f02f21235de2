"""Eight 4-bit weights an int32 with zero points, unpacked by one launch, multiplied by another."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 48, "out_features": 4096, "in_features": 4096}]
HELD_OUT_SHAPES = [{"rows": 5, "out_features": 96, "in_features": 128}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-1}

GROUP = 64


def reference(x, qweight, scale, zero):
    shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    q = ((qweight[:, :, None] >> shifts) & 15).reshape(qweight.shape[0], -1).float()
    s, z = scale.float().repeat_interleave(GROUP, 1), zero.float().repeat_interleave(GROUP, 1)
    return (x.float() @ ((q - z) * s).to(x.dtype).float().t()).to(x.dtype)


def inputs(rows=48, out_features=4096, in_features=4096, device="cuda"):
    x = torch.randn(rows, in_features, dtype=torch.float16, device=device)
    shape = out_features, in_features // 8
    words = torch.randint(-(2**31), 2**31, shape, dtype=torch.int64, device=device)
    groups = out_features, in_features // GROUP
    scale = torch.rand(groups, dtype=torch.float16, device=device) * 0.02
    zero = torch.randint(0, 16, groups, device=device).half()
    return x, words.to(torch.int32), scale, zero


@triton.jit
def dequantize(Q, S, Z, W, numel, K, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < numel
    n = i // K
    k = i % K
    word = tl.load(Q + n * (K // 8) + k // 8, mask=ok, other=0)
    q = (word >> ((k % 8) * 4)) & 15
    s = tl.load(S + n * (K // GROUP) + k // GROUP, mask=ok, other=0.0)
    z = tl.load(Z + n * (K // GROUP) + k // GROUP, mask=ok, other=0.0)
    w = (q.to(tl.float32) - z.to(tl.float32)) * s.to(tl.float32)
    tl.store(W + i, w.to(W.dtype.element_ty), mask=ok)


@triton.jit
def gemm_nt(X, W, Y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    x_ptrs = X + om[:, None] * K + ok[None, :]
    w_ptrs = W + on[None, :] * K + ok[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(x_ptrs, mask=(om[:, None] < M) & (ok[None, :] < K - k * BK), other=0.0)
        w = tl.load(w_ptrs, mask=(on[None, :] < N) & (ok[:, None] < K - k * BK), other=0.0)
        acc += tl.dot(x, w)
        x_ptrs += BK
        w_ptrs += BK
    tl.store(Y + om[:, None] * N + on[None, :], acc.to(Y.dtype.element_ty),
             mask=(om[:, None] < M) & (on[None, :] < N))  # fmt: skip


class QuantLinear(torch.autograd.Function):
    """Two launches."""

    @staticmethod
    def forward(_ctx, x, qweight, scale, zero):
        M, K = x.shape
        N = qweight.shape[0]
        w = torch.empty((N, K), dtype=x.dtype, device=x.device)
        dequantize[(triton.cdiv(N * K, 1024),)](
            qweight, scale, zero, w, N * K, K, GROUP=GROUP, BLOCK=1024
        )
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(N, 32), triton.cdiv(M, 16))
        gemm_nt[grid](x, w, y, M, N, K, BM=16, BN=32, BK=32)
        return y


def kernel(x, qweight, scale, zero):
    return QuantLinear.apply(x, qweight, scale, zero)
