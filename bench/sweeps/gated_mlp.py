"""The first half of a gated MLP: silu(x @ gate) * (x @ up), two products that share x."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"M": 1024, "N": 4096, "K": 2048}]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, gate, up):
    return F.silu(x @ gate) * (x @ up)


def inputs(M=1024, N=4096, K=2048, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    gate, up = (torch.randn(K, N, dtype=dtype, device=device) * K**-0.5 for _ in range(2))
    return x, gate, up


@triton.jit
def gated_kernel(
    x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    gated = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    linear = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (k[:, None] < K) & (n[None, :] < N)
        offsets = k[:, None] * N + n[None, :]
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        gated = tl.dot(x, tl.load(gate_ptr + offsets, mask=w_mask, other=0.0), gated)
        linear = tl.dot(x, tl.load(up_ptr + offsets, mask=w_mask, other=0.0), linear)
    out = gated * tl.sigmoid(gated) * linear
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, both accumulators in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + 2 * n) * k * 2
    return shared <= 227 * 1024 and 8 <= 2 * m * n / (32 * params["num_warps"]) <= 128


def kernel(x, gate, up, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=3):
    (M, K), N = x.shape, gate.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    gated_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, gate, up, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
