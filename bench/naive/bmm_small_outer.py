"""Many products of 16 by 32 and 32 by 16: a program a product, by broadcast and sum."""

import torch
import triton
import triton.language as tl

SHAPES = [{"n_mat": 65536}]
HELD_OUT_SHAPES = [{"n_mat": 1001}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(a, b):
    return torch.bmm(a.float(), b.float()).to(a.dtype)


def inputs(n_mat=65536, device="cuda"):
    a = torch.randn(n_mat, 16, 32, dtype=torch.float16, device=device)
    return a, torch.randn(n_mat, 32, 16, dtype=torch.float16, device=device)


@triton.jit
def bmm_small(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    bid = tl.program_id(0)
    rm = tl.arange(0, M)
    rn = tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for k in range(K):
        a_col = tl.load(a_ptr + bid * M * K + rm * K + k).to(tl.float32)
        b_row = tl.load(b_ptr + bid * K * N + k * N + rn).to(tl.float32)
        acc += a_col[:, None] * b_row[None, :]
    tl.store(c_ptr + bid * M * N + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


def kernel(a, b):
    n, M, K = a.shape
    N = b.shape[2]
    c = torch.empty((n, M, N), dtype=a.dtype, device=a.device)
    bmm_small[(n,)](a, b, c, M=M, N=N, K=K, num_warps=4)
    return c
