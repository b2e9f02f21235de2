"""Linear, GELU, softmax, as modules: an output tile a program, then two launches over rows."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

SHAPES = [{"batch": 4096, "in_features": 1024, "out_features": 2048}]
HELD_OUT_SHAPES = [{"batch": 33, "in_features": 100, "out_features": 130}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}


def reference(x, weight, bias):
    return torch.softmax(nn.functional.gelu(x @ weight.t() + bias), -1)


def inputs(batch=4096, in_features=1024, out_features=2048, device="cuda"):
    x = torch.randn(batch, in_features, device=device)
    weight = torch.randn(out_features, in_features, device=device) * in_features**-0.5
    return x, weight, torch.randn(out_features, device=device)


@triton.jit
def linear_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        k_offs = k * BLOCK_K + offs_k
        x = tl.load(
            x_ptr + offs_m[:, None] * K + k_offs[None, :],
            mask=(offs_m[:, None] < M) & (k_offs[None, :] < K),
            other=0.0,
        )
        w = tl.load(
            w_ptr + offs_n[:, None] * K + k_offs[None, :],
            mask=(offs_n[:, None] < N) & (k_offs[None, :] < K),
            other=0.0,
        )
        acc += tl.dot(x, tl.trans(w))
    bias = tl.load(b_ptr + offs_n, mask=offs_n < N, other=0.0)
    acc = acc + bias[None, :]
    tl.store(
        out_ptr + offs_m[:, None] * N + offs_n[None, :],
        acc,
        mask=(offs_m[:, None] < M) & (offs_n[None, :] < N),
    )


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + offsets, y, mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    num = tl.exp(x)
    tl.store(out_ptr + row * n_cols + cols, num / tl.sum(num, axis=0), mask=mask)


class GeluSoftmax(nn.Module):
    """Three launches."""

    def forward(self, x, weight, bias):
        M, K = x.shape
        N = weight.shape[0]
        linear = torch.empty((M, N), device=x.device, dtype=torch.float32)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        linear_kernel[grid](x, weight, bias, linear, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
        gelu = torch.empty_like(linear)
        gelu_kernel[(triton.cdiv(M * N, 1024),)](linear, gelu, M * N, BLOCK_SIZE=1024)
        out = torch.empty_like(gelu)
        softmax_kernel[(M,)](gelu, out, N, BLOCK_SIZE=triton.next_power_of_2(N))
        return out


def kernel(x, weight, bias):
    return GeluSoftmax()(x, weight, bias)
