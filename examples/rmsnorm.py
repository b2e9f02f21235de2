"""RMS normalisation with a learned weight: one row a program, held in registers."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-6

SHAPES = [
    {"M": 16384, "N": 4096},
    {"M": 8192, "N": 8192},
    {"M": 5003, "N": 3001},  # odd rows: every load is masked and none is aligned
]
SPACE = {"num_warps": [2, 4, 8, 16]}
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def reference(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, EPS)


def inputs(M=16384, N=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    weight = torch.randn(N, dtype=dtype, device=device)
    return x, weight


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N  # 64 bits: M * N may exceed 2**31 elements
    cols = tl.arange(0, BLOCK)
    mask = cols < N

    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
    # The weight is asked for before the reduction, whose wait then hides it. It stays in L2.
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    out = x * scale * weight
    tl.store(out_ptr + row + cols, out.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """Eight to 64 values a thread: fewer idle, more spill."""
    return 8 <= triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"]) <= 64


def kernel(x, weight, *, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    rmsnorm_kernel[(M,)](x, weight, out, N, EPS, BLOCK=block, num_warps=num_warps)
    return out
