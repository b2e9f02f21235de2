"""The sum of each row: memory is only read, and each program waits for its own reduction."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 1024, "N": 1024}]
SPACE = {"num_warps": [2, 4, 8]}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-3}  # sums of either sign, in another order


def reference(x):
    return x.sum(dim=-1)


def inputs(M=1024, N=1024, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def rowsum_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row.to(tl.int64) * N + cols, mask=cols < N, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


def kernel(x, *, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    rowsum_kernel[(M,)](x, out, N, BLOCK=triton.next_power_of_2(N), num_warps=num_warps)
    return out
