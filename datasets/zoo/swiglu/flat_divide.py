"""Over the output as one vector: row and column by integer division of each offset."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.swiglu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "UNROLL": [1, 2, 4],
    "STORE": ["", ".cs", ".wt"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def swiglu_flat_kernel(
    packed_ptr, out_ptr, n, N, BLOCK: tl.constexpr, UNROLL: tl.constexpr, STORE: tl.constexpr
):
    base = tl.program_id(0) * BLOCK * UNROLL
    for part in tl.static_range(UNROLL):
        i = base + part * BLOCK + tl.arange(0, BLOCK)
        at = i + i // N * N  # each row before this one put N more values in between
        gate = tl.load(packed_ptr + at, mask=i < n, other=0.0).to(tl.float32)
        up = tl.load(packed_ptr + at + N, mask=i < n, other=0.0).to(tl.float32)
        out = gate * tl.sigmoid(gate) * up
        tl.store(out_ptr + i, out.to(out_ptr.dtype.element_ty), mask=i < n, cache_modifier=STORE)


def valid(params, shape):
    """One to 32 elements a thread in each part."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(packed, *, BLOCK=1024, UNROLL=1, STORE="", num_warps=4):
    M, N = packed.shape[0], packed.shape[1] // 2
    out = torch.empty((M, N), dtype=packed.dtype, device=packed.device)
    n = out.numel()
    swiglu_flat_kernel[(triton.cdiv(n, BLOCK * UNROLL),)](
        packed, out, n, N, BLOCK, UNROLL, STORE, num_warps=num_warps
    )
    return out
