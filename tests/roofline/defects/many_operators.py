"""Expected: "are PyTorch's operators". Sixteen small ones, each a launch, and one kernel."""

import torch
import triton
import triton.language as tl


def inputs(N=2**10, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return torch.relu(x + 16.0)


@triton.jit
def relu_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x):
    x = x + 1.0
    for _ in range(15):
        x += 1.0
    out = torch.empty_like(x)
    relu_kernel[(x.numel() // 256,)](x, out, BLOCK=256)
    return out
