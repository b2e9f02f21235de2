"""Expected: "gated writes 134.2 MB (product) that scaled reads again (product)".

Each tensor is read once in a launch, its halves by different lines: nothing is read again there.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gated(x, gate, product, HALF, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    second = first + HALF
    tl.store(product + first, tl.load(x + first) * tl.load(gate + first))
    tl.store(product + second, tl.load(x + second) * tl.load(gate + second))


@triton.jit
def scaled(product, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(product + at) * 3)


def reference(x, gate):
    return x * gate * 3


def inputs(N=2**25, dtype=torch.float32, device="cuda"):
    return torch.randn(N, dtype=dtype, device=device), torch.randn(N, dtype=dtype, device=device)


def kernel(x, gate):
    product, out = torch.empty_like(x), torch.empty_like(x)
    N = x.numel()
    gated[(N // 2048,)](x, gate, product, N // 2, BLOCK=1024)
    scaled[(N // 1024,)](product, out, BLOCK=1024)
    return out
