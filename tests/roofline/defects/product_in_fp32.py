"""Expected: "allow tf32". PyTorch multiplies fp32 on the scalar pipe, as nobody told it not to."""

import torch
import triton
import triton.language as tl

TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(N=4096, device="cuda"):
    return torch.randn(N, N, device=device), torch.randn(N, N, device=device)


def reference(x, w):
    return torch.relu(x @ w)


@triton.jit
def relu_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x, w):
    y = x @ w
    out = torch.empty_like(y)
    relu_kernel[(y.numel() // 1024,)](y, out, BLOCK=1024)
    return out
