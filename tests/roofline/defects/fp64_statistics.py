"""Expected: "in fp64". Moments of halves in doubles."""

import torch
import triton
import triton.language as tl


def inputs(M=16384, N=4096, dtype=torch.float16, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), torch.randn(N, device=device)


def reference(x, weight):
    return torch.nn.functional.layer_norm(x, (x.shape[1],), weight.half())


@triton.jit
def layer_norm_kernel(x, weight, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at).to(tl.float64)
    mean = tl.sum(row) / N
    off = row - mean
    variance = tl.sum(off * off) / N
    scale = tl.load(weight + tl.arange(0, N)).to(tl.float64)
    tl.store(out + at, (off / tl.sqrt(variance + 1e-5) * scale).to(tl.float16))


def kernel(x, weight):
    out = torch.empty_like(x)
    layer_norm_kernel[(x.shape[0],)](x, weight, out, x.shape[1], num_warps=8)
    return out
