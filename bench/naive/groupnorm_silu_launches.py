"""GroupNorm, NCHW, then SiLU in place: statistics a group a program, two launches an element."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"N": 16, "C": 320, "H": 64, "W": 64}]
HELD_OUT_SHAPES = [{"N": 2, "C": 64, "H": 23, "W": 19}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, weight, bias):
    return F.silu(F.group_norm(x.float(), 32, weight.float(), bias.float(), 1e-5)).to(x.dtype)


def inputs(N=16, C=320, H=64, W=64, device="cuda"):
    x = torch.randn(N, C, H, W, dtype=torch.float16, device=device)
    return x, *(torch.randn(C, dtype=torch.float16, device=device) for _ in range(2))


@triton.jit
def group_stats_kernel(x_ptr, mean_ptr, rstd_ptr, C, HW, num_groups, eps, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    n = pid // num_groups
    g = pid % num_groups
    group_size = C // num_groups
    base = n * C * HW + g * group_size * HW
    num_elements = group_size * HW
    sum_val = 0.0
    sum_sq = 0.0
    for start in range(0, num_elements, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < num_elements
        x = tl.load(x_ptr + base + offsets, mask=mask, other=0.0).to(tl.float32)
        sum_val += tl.sum(x, axis=0)
        sum_sq += tl.sum(x * x, axis=0)
    mean = sum_val / num_elements
    var = sum_sq / num_elements - mean * mean
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, 1.0 / tl.sqrt(var + eps))


@triton.jit
def normalize_kernel(
    x_ptr, y_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, n_elements, C, HW, num_groups,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    c = (offsets // HW) % C
    n = offsets // (C * HW)
    g = c // (C // num_groups)
    mean = tl.load(mean_ptr + n * num_groups + g, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + n * num_groups + g, mask=mask, other=0.0)
    w = tl.load(weight_ptr + c, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(bias_ptr + c, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = (x - mean) * rstd * w + b
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def silu_kernel(x_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = x / (1.0 + tl.exp(-x))
    tl.store(x_ptr + offsets, y.to(x_ptr.dtype.element_ty), mask=mask)


def kernel(x, weight, bias):
    N, C, H, W = x.shape
    num_groups = 32
    x = x.contiguous()
    y = torch.empty_like(x)
    mean = torch.empty(N * num_groups, dtype=torch.float32, device=x.device)
    rstd = torch.empty_like(mean)
    group_stats_kernel[(N * num_groups,)](x, mean, rstd, C, H * W, num_groups, 1e-5, BLOCK_SIZE=256)
    n_elements = x.numel()
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    normalize_kernel[grid](
        x, y, mean, rstd, weight, bias, n_elements, C, H * W, num_groups, BLOCK_SIZE=256
    )
    silu_kernel[grid](y, n_elements, BLOCK_SIZE=256)
    return y
