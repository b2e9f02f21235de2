"""Tiles by TMA descriptors, and the same by pointers with one stage."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

PLANTED = "pipeline"


def inputs(M=4096, N=4096, K=4096, device="cuda"):
    a = torch.randn(M, K, device=device, dtype=torch.bfloat16)
    return a, torch.randn(K, N, device=device, dtype=torch.bfloat16)


def reference(a, b):
    return a @ b


@triton.jit
def tiles_kernel(da, db, a, b, c, K, N, PLANT: tl.constexpr, BLOCK: tl.constexpr):
    top, edge = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    rows, columns = top + tl.arange(0, BLOCK), edge + tl.arange(0, BLOCK)
    inner = tl.arange(0, 64)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, 64):
        if PLANT:
            left = tl.load(a + rows[:, None] * K + k + inner[None, :])
            right = tl.load(b + (k + inner[:, None]) * N + columns[None, :])
        else:
            left, right = da.load([top, k]), db.load([k, edge])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


def kernel(a, b, *, PLANT=False, num_warps=8):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, device=a.device, dtype=a.dtype)
    da = TensorDescriptor.from_tensor(a, [128, 64])
    db = TensorDescriptor.from_tensor(b, [64, 128])
    stages = 1 if PLANT else 3
    tiles_kernel[(M // 128, N // 128)](
        da, db, a, b, c, K, N, PLANT, 128, num_warps=num_warps, num_stages=stages
    )
    return c
