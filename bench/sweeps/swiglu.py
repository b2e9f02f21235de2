"""silu(gate) * up over packed rows [gate | up]: a chain of elementwise operations."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"M": 8192, "N": 5632}, {"M": 512, "N": 1408}]
SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
}
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}


def reference(packed):
    gate, up = packed.chunk(2, dim=-1)
    return F.silu(gate) * up


def inputs(M=8192, N=5632, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, 2 * N, dtype=dtype, device=device),)


@triton.jit
def swiglu_kernel(packed_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    source = packed_ptr + rows * 2 * N + cols
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + N, mask=inside, other=0.0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + rows * N + cols, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(packed, *, ROWS=1, BLOCK=1024, num_warps=4):
    M, N = packed.shape[0], packed.shape[1] // 2
    out = torch.empty((M, N), dtype=packed.dtype, device=packed.device)
    grid = (triton.cdiv(N, BLOCK), triton.cdiv(M, ROWS))
    swiglu_kernel[grid](packed, out, M, N, ROWS, BLOCK, num_warps=num_warps)
    return out
