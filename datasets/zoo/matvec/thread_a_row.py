"""A thread or two a row: threads walk along rows of their own, and few sums cross threads."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [32, 64, 128, 256],
    "CHUNK": [1, 2, 4, 8, 16],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4],
}


@triton.jit
def thread_row_kernel(
    w_ptr, x_ptr, out_ptr, N, K,
    BLOCK_N: tl.constexpr, CHUNK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N, CHUNK), dtype=tl.float32)
    for k0 in range(0, K, CHUNK * UNROLL):
        for step in tl.static_range(UNROLL):
            k = k0 + step * CHUNK + tl.arange(0, CHUNK)
            inside = (n[:, None] < N) & (k[None, :] < K)
            w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=inside, other=0.0)
            x = tl.load(x_ptr + k, mask=k < K, other=0.0)
            acc += w.to(tl.float32) * x.to(tl.float32)[None, :]
    tl.store(out_ptr + n, tl.sum(acc, axis=1).to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """A row or more a thread, up to 64 elements; rows short enough to be walked alone."""
    threads = 32 * params["num_warps"]
    held = params["BLOCK_N"] * params["CHUNK"] * params["UNROLL"] / threads
    near = shape["K"] <= min(4096, 1024 * params["CHUNK"] * params["UNROLL"])
    return near and params["BLOCK_N"] >= threads and held <= 64


def kernel(w, x, *, BLOCK_N=64, CHUNK=8, UNROLL=2, num_warps=2):
    N, K = w.shape
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    thread_row_kernel[(triton.cdiv(N, BLOCK_N),)](
        w, x, out, N, K, BLOCK_N, CHUNK, UNROLL, num_warps=num_warps
    )
    return out
