"""A matrix times a vector in bf16, some rows a program."""

import torch
import triton
import triton.language as tl

SHAPES = [{"N": 14336, "K": 4096}, {"N": 1024, "K": 16384}]
SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8],
}
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def reference(w, x):
    return w @ x


def inputs(N=14336, K=4096, dtype=torch.bfloat16, device="cuda"):
    w = torch.randn(N, K, dtype=dtype, device=device) * K**-0.5
    return w, torch.randn(K, dtype=dtype, device=device)


@triton.jit
def matvec_kernel(w_ptr, x_ptr, out_ptr, N, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < N) & (cols[None, :] < K)
        w = tl.load(w_ptr + rows[:, None] * K + cols[None, :], mask=inside, other=0.0)
        x = tl.load(x_ptr + cols, mask=cols < K, other=0.0)
        acc += w.to(tl.float32) * x.to(tl.float32)[None, :]
    tl.store(out_ptr + rows, tl.sum(acc, axis=1).to(out_ptr.dtype.element_ty), mask=rows < N)


def valid(params, shape):
    """Two to 64 values a thread."""
    return 2 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(w, x, *, ROWS=4, BLOCK=512, num_warps=4):
    N, K = w.shape
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    matvec_kernel[(triton.cdiv(N, ROWS),)](w, x, out, N, K, ROWS, BLOCK, num_warps=num_warps)
    return out
