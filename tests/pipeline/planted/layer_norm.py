"""A column index that wraps around, which ends what is known of its neighbours."""

import torch
import triton
import triton.language as tl

PLANTED = "vector_width"


def inputs(M=8192, N=4096, device="cuda"):
    x = torch.randn(M, N, device=device, dtype=torch.float16)
    return x, torch.randn(N, device=device, dtype=torch.float16)


def reference(x, w):
    return torch.nn.functional.layer_norm(x, (x.shape[1],), w)


@triton.jit
def norm_kernel(x, w, out, N, PLANT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if PLANT:
        at = (at + row) % N
    mask = at < N
    value = tl.load(x + row * N + at, mask, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / N
    value = tl.where(mask, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(value * value, 0) / N + 1e-5)
    tl.store(out + row * N + at, (value * scale * tl.load(w + at, mask)).to(tl.float16), mask)


def kernel(x, w, *, PLANT=False, num_warps=8):
    out = torch.empty_like(x)
    M, N = x.shape
    norm_kernel[(M,)](x, w, out, N, PLANT, triton.next_power_of_2(N), num_warps=num_warps)
    return out
