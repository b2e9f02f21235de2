"""One flat grid over tiles and batch entries, either of them innermost, with block pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_batched.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TM": [32, 64, 128],
    "TN": [32, 64, 128],
    "TK": [16, 32, 64],
    "BATCH_INNERMOST": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def flat_kernel(
    x_ptr, y_ptr, out_ptr, B, M, N, K,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, BATCH_INNERMOST: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, TN)
    tiles = tl.cdiv(M, TM) * columns
    pid = tl.program_id(0)
    if BATCH_INNERMOST:
        entry, tile = pid % B, pid // B
    else:
        entry, tile = pid // tiles, pid % tiles
    entry = entry.to(tl.int64)
    m0, n0 = tile // columns * TM, tile % columns * TN
    x_tile = tl.make_block_ptr(x_ptr + entry * M * K, (M, K), (K, 1), (m0, 0), (TM, TK), (1, 0))
    y_tile = tl.make_block_ptr(y_ptr + entry * K * N, (K, N), (N, 1), (0, n0), (TK, TN), (1, 0))
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for _ in range(tl.cdiv(K, TK)):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(y_tile, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y)
        x_tile = tl.advance(x_tile, (0, TK))
        y_tile = tl.advance(y_tile, (TK, 0))
    out = tl.make_block_ptr(out_ptr + entry * M * N, (M, N), (N, 1), (m0, n0), (TM, TN), (1, 0))
    tl.store(out, acc.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """Four to 128 accumulators a thread, and no tile far larger than the matrix."""
    m, n = params["TM"], params["TN"]
    near = m < 4 * shape["M"] and n < 4 * shape["N"]
    return near and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, y, *, TM=32, TN=64, TK=32, BATCH_INNERMOST=False, num_warps=4, num_stages=2):
    (B, M, K), N = x.shape, y.shape[2]
    out = torch.empty((B, M, N), dtype=x.dtype, device=x.device)
    flat_kernel[(B * triton.cdiv(M, TM) * triton.cdiv(N, TN),)](
        x, y, out, B, M, N, K, TM, TN, TK, BATCH_INNERMOST,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
