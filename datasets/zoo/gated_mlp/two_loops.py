"""Two loops over K, one a product: half the shared memory, x read twice, then the gate."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gated_mlp.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BM": [16, 32, 64, 128],
    "BN": [32, 64, 128],
    "BK": [32, 64, 128],
    "GROUP": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def product(
    x_ptr, w_ptr, m0, n0, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BM, BK), (1, 0))
    w_tile = tl.make_block_ptr(w_ptr, (K, N), (N, 1), (0, n0), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        x_tile = tl.advance(x_tile, (0, BK))
        w_tile = tl.advance(w_tile, (BK, 0))
    return acc


@triton.jit
def two_loops_kernel(
    x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    i, j = tl.swizzle2d(
        tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n, tiles_m, tiles_n, GROUP
    )
    gated = product(x_ptr, gate_ptr, i * BM, j * BN, M, N, K, BM, BN, BK)
    gated = gated / (1.0 + tl.exp(-gated))
    gated *= product(x_ptr, up_ptr, i * BM, j * BN, M, N, K, BM, BN, BK)
    out_tile = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (i * BM, j * BN), (BM, BN), (1, 0))
    tl.store(out_tile, gated.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """The pipelined tiles fit in shared memory, both accumulators in registers."""
    m, n, k = params["BM"], params["BN"], params["BK"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= 2 * m * n / (32 * params["num_warps"]) <= 128


def kernel(x, gate, up, *, BM=64, BN=64, BK=64, GROUP=8, num_warps=4, num_stages=3):
    (M, K), N = x.shape, gate.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    two_loops_kernel[(triton.cdiv(M, BM) * triton.cdiv(N, BN),)](
        x, gate, up, out, M, N, K, BM, BN, BK, GROUP, num_warps=num_warps, num_stages=num_stages
    )
    return out
