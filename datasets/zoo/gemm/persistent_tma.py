"""Persistent programs with TMA descriptors made on the device; the result leaves in parts."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS_PER_SM": [1, 2],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "HALVES": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
SMS = 132  # of an H100 SXM or H200


@triton.jit
def persistent_tma_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    STORE_N: tl.constexpr = BLOCK_N // 2 if HALVES else BLOCK_N
    x_tiles = tl.make_tensor_descriptor(x_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    w_tiles = tl.make_tensor_descriptor(w_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK_M, STORE_N])
    columns = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, tl.num_programs(0)):
        m, n = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(x_tiles.load([m, k]), w_tiles.load([k, n]), acc)
        out = acc.to(out_ptr.dtype.element_ty)
        if HALVES:  # half the buffer in shared memory for what is stored
            left, right = out.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
            out_tiles.store([m, n], left)
            out_tiles.store([m, n + BLOCK_N // 2], right)
        else:
            out_tiles.store([m, n], out)


def scratch(size, _alignment, _stream):
    """Where the device's descriptors lie."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and what is stored fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    if shape["K"] * size % 16 or shape["N"] * size % 16:
        return False
    result = m * n // 2 if params["HALVES"] else m * n
    shared = (params["num_stages"] * (m + n) * k + result) * size
    fits = shared * params["PROGRAMS_PER_SM"] <= 227 * 1024
    return fits and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, PROGRAMS_PER_SM=1, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, HALVES=True,
    num_warps=8, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    triton.set_allocator(scratch)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    persistent_tma_kernel[(min(SMS * PROGRAMS_PER_SM, tiles),)](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, HALVES,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
