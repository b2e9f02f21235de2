"""Expected: "moves 1 byte a lane". Rows of 8,191 bytes: nothing is aligned."""

import torch
import triton
import triton.language as tl


def inputs(M=16384, N=8191, dtype=torch.int8, device="cuda"):
    return (torch.randint(-9, 9, (M, N), dtype=dtype, device=device),)


def reference(x):
    return torch.relu(x)


@triton.jit
def relu_kernel(x, out, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + columns
    tl.store(out + at, tl.maximum(tl.load(x + at, columns < N), 0), columns < N)


def kernel(x):
    out = torch.empty_like(x)
    relu_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=8192, num_warps=8)
    return out
