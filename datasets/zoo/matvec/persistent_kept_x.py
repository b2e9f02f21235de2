"""Persistent programs over rows, each keeping its piece of x in registers where x is short."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PER_SM": [1, 2, 4, 8],
    "ROWS": [1, 2, 4, 8, 16],
    "EVICT_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}
SMS = 132  # of an H100 SXM or H200


@triton.jit
def kept_x_kernel(
    w_ptr, x_ptr, out_ptr, N, K,
    ROWS: tl.constexpr, WHOLE_K: tl.constexpr, EVICT_FIRST: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, WHOLE_K)
    x = tl.load(x_ptr + k, mask=k < K, other=0.0, eviction_policy="evict_last")
    x = x.to(tl.float32)[None, :]
    policy: tl.constexpr = "evict_first" if EVICT_FIRST else ""
    blocks = tl.cdiv(N, ROWS)
    for block in tl.range(tl.program_id(0), blocks, tl.num_programs(0), num_stages=STAGES):
        rows = block * ROWS + tl.arange(0, ROWS)
        inside = (rows[:, None] < N) & (k[None, :] < K)
        w_ptrs = w_ptr + rows[:, None] * K + k[None, :]
        w = tl.load(w_ptrs, mask=inside, other=0.0, eviction_policy=policy)
        out = tl.sum(w.to(tl.float32) * x, axis=1)
        tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty), mask=rows < N)


def valid(params, shape):
    """Rows that fit in registers: up to 64 elements a thread; stages that fit in shared memory."""
    elements = params["ROWS"] * triton.next_power_of_2(shape["K"])
    shared = elements * 4 * params["num_stages"] * params["PER_SM"]
    fits = shape["K"] <= 8192 and shared <= 227 * 1024
    return fits and 0.5 <= elements / (32 * params["num_warps"]) <= 64


def kernel(w, x, *, PER_SM=4, ROWS=1, EVICT_FIRST=True, num_warps=4, num_stages=2):
    N, K = w.shape
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    kept_x_kernel[(min(SMS * PER_SM, triton.cdiv(N, ROWS)),)](
        w, x, out, N, K, ROWS, triton.next_power_of_2(K), EVICT_FIRST, num_stages,
        num_warps=num_warps,
    )  # fmt: skip
    return out
