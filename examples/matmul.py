"""Matrix product x @ w in bf16 with fp32 accumulation, tiles visited so that they share L2."""

import torch
import triton
import triton.language as tl

SHAPES = [
    {"M": 4096, "N": 4096, "K": 4096},
    {"M": 8192, "N": 8192, "K": 8192},
    {"M": 1000, "N": 2000, "K": 3000},  # no size is a multiple of a tile
]
SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_M": [4, 8, 16],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}
# Outputs are of order one. The absolute part allows for the partial sums that cuBLAS may round
# to bf16 when it splits K.
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}

SHARED_BYTES = 227 * 1024  # what a block may have on sm_90
ACCUMULATORS = 128  # fp32 accumulators a thread can hold next to its addresses


def reference(x, w):
    return x @ w


def inputs(M=4096, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randn(K, N, dtype=dtype, device=device) * K**-0.5
    return x, w


@triton.jit
def matmul_kernel(
    x_ptr,
    w_ptr,
    out_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    # Programs that run together take a patch of GROUP_M tile rows, column after column, instead
    # of one long row: the tiles of x and w that the patch needs are few enough to stay in L2.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    tile_m = first_m + pid % (GROUP_M * tiles_n) % group_m
    tile_n = pid % (GROUP_M * tiles_n) // group_m

    # A tile's origin takes 64 bits, the offsets within it 32: they stay cheap and cannot overflow.
    m0 = tile_m.to(tl.int64) * BLOCK_M
    n0 = tile_n.to(tl.int64) * BLOCK_N
    m = tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    mask_m = m[:, None] < M - m0
    mask_n = n[None, :] < N - n0

    x_ptrs = x_ptr + m0 * K + (m[:, None] * K + k[None, :])
    w_ptrs = w_ptr + n0 + (k[:, None] * N + n[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_ptrs, mask=mask_m, other=0.0)
            w = tl.load(w_ptrs, mask=mask_n, other=0.0)
        else:
            x = tl.load(x_ptrs, mask=mask_m & (k[None, :] < K - k0), other=0.0)
            w = tl.load(w_ptrs, mask=mask_n & (k[:, None] < K - k0), other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N

    out_ptrs = out_ptr + m0 * N + n0 + (m[:, None] * N + n[None, :])
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=mask_m & mask_n)


def valid(params, shape):
    """The pipelined tiles must fit in shared memory, the accumulator in registers."""
    block_m, block_n, block_k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (block_m + block_n) * block_k * 2  # two bytes an element
    accumulators = block_m * block_n / (32 * params["num_warps"])
    return shared <= SHARED_BYTES and accumulators <= ACCUMULATORS


def kernel(x, w, *, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3):
    M, K = x.shape
    N = w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_kernel[grid](
        x,
        w,
        out,
        M,
        N,
        K,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        GROUP_M=GROUP_M,
        EVEN_K=K % BLOCK_K == 0,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return out
