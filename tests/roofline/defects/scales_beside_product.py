"""Expected: "product is limited by shared memory".

Each block computes the few exponentials of the scales again: 256 times what the problem needs, in
no time. Its tiles are too narrow for the operand that all columns share.
"""

import torch
import triton
import triton.language as tl

TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


@triton.jit
def product(x, w, scale, out, N, K, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.arange(0, 16)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    sums = tl.zeros((16, BN), tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        right = tl.load(w + inner[:, None] * N + column[None, :]).to(tl.bfloat16)
        sums += tl.dot(tl.load(x + row[:, None] * K + inner[None, :]), right)
    sums *= tl.exp(tl.load(scale + row))[:, None]
    tl.store(out + row[:, None] * N + column[None, :], sums.to(tl.bfloat16))


def reference(x, w, scale):
    return (x @ w.to(torch.bfloat16)) * torch.exp(scale)[:, None].to(torch.bfloat16)


def inputs(N=16384, K=4096, device="cuda"):
    x = torch.randn(16, K, dtype=torch.bfloat16, device=device)
    w = torch.randint(-8, 8, (K, N), dtype=torch.int8, device=device)
    return x, w, torch.randn(16, device=device)


def kernel(x, w, scale, *, num_warps=4, num_stages=4):
    K, N = w.shape
    out = torch.empty(16, N, dtype=torch.bfloat16, device=x.device)
    how = {"num_warps": num_warps, "num_stages": num_stages}
    product[(N // 16,)](x, w, scale, out, N, K, BN=16, BK=64, **how)
    return out
