"""Five autotuned kernels, as users write them, that no shipped row holds: for `autotune.py`.

Each entry of `CASES` makes a kernel's arguments on a device: the kernel, positional arguments, grid
and keyword arguments.
"""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl


def matmul_configs():
    blocks = [(64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128), (256, 64)]
    found = []
    for (m, n), k, stages, warps in itertools.product(blocks, (32, 64), (2, 3, 4), (4, 8)):
        if m * n >= 256 * 128 and warps == 4:
            continue
        found.append(
            triton.Config(
                {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8},
                num_warps=warps,
                num_stages=stages,
            )
        )
    further = [
        triton.Config(
            {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "GROUP_M": group},
            num_warps=8,
            num_stages=stages,
        )
        for group, stages in itertools.product((4, 16), (2, 3))
    ]
    also = [
        triton.Config(
            {"BLOCK_M": 128, "BLOCK_N": n, "BLOCK_K": 64, "GROUP_M": 4},
            num_warps=warps,
            num_stages=3,
        )
        for n, warps in itertools.product((64, 128), (4, 8))
    ]
    return found + further + also


@triton.autotune(configs=matmul_configs(), key=["M", "N", "K"])
@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * columns
    first = (pid // in_group) * GROUP_M
    size = min(rows - first, GROUP_M)
    pid_m = first + (pid % in_group) % size
    pid_n = (pid % in_group) // size
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + offs_cm[:, None] * stride_cm + offs_cn[None, :] * stride_cn
    mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, acc.to(tl.bfloat16), mask=mask)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block, "ROWS": rows}, num_warps=warps)
        for block, rows, warps in itertools.product((1024, 2048, 4096), (1, 2), (2, 4, 8, 16))
    ],
    key=["n_cols"],
)
@triton.jit
def softmax(out_ptr, in_ptr, n_rows, n_cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Online: one pass for maximum and sum, one for the results."""
    for step in range(ROWS):
        row = tl.program_id(0) * ROWS + step
        if row < n_rows:
            start = in_ptr + row.to(tl.int64) * n_cols
            largest = tl.full((BLOCK,), -float("inf"), tl.float32)
            total = tl.zeros((BLOCK,), tl.float32)
            for at in range(0, n_cols, BLOCK):
                cols = at + tl.arange(0, BLOCK)
                x = tl.load(start + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
                now = tl.maximum(largest, x)
                safe = tl.where(now == -float("inf"), 0.0, now)
                total = total * tl.exp(largest - safe) + tl.exp(x - safe)
                largest = now
            top = tl.max(largest, axis=0)
            whole = tl.sum(total * tl.exp(largest - top), axis=0)
            for at in range(0, n_cols, BLOCK):
                cols = at + tl.arange(0, BLOCK)
                x = tl.load(start + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
                y = tl.exp(x - top) / whole
                tl.store(out_ptr + row.to(tl.int64) * n_cols + cols, y, mask=cols < n_cols)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block}, num_warps=warps, num_stages=stages)
        for block, warps, stages in itertools.product((512, 1024, 2048, 4096), (2, 4, 8), (1, 3))
    ],
    key=["N"],
)
@triton.jit
def layer_norm(X, Y, W, B, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    X += row.to(tl.int64) * stride
    Y += row.to(tl.int64) * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        square += x * x
    rstd = 1 / tl.sqrt(tl.sum(square, axis=0) / N + eps)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(W + cols, mask=mask).to(tl.float32)
        b = tl.load(B + cols, mask=mask).to(tl.float32)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
        for m, n, warps, stages in itertools.product((64, 128), (32, 64), (4, 8), (2, 3, 4))
    ],
    key=["length"],
)
@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    scale,
    length,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Not causal; batch and heads are one dimension."""
    start = tl.program_id(1).to(tl.int64) * length * HEAD
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    rows = offs_m[:, None] * HEAD + offs_d[None, :]
    q = tl.load(q_ptr + start + rows, mask=offs_m[:, None] < length, other=0.0)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for at in range(0, length, BLOCK_N):
        keys = at + offs_n
        k = tl.load(
            k_ptr + start + keys[None, :] * HEAD + offs_d[:, None], mask=keys[None, :] < length
        )
        scores = tl.dot(q, k) * (scale * 1.44269504)
        scores = tl.where(keys[None, :] < length, scores, -float("inf"))
        now = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        fade = tl.exp2(top - now)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(
            v_ptr + start + keys[:, None] * HEAD + offs_d[None, :], mask=keys[:, None] < length
        )
        acc = tl.dot(p.to(v.dtype), v, acc * fade[:, None])
        top = now
    out = acc / total[:, None]
    tl.store(o_ptr + start + rows, out.to(tl.bfloat16), mask=offs_m[:, None] < length)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_N": n, "BLOCK_K": k}, num_warps=warps)
        for n, k, warps in itertools.product((4, 8, 16, 32), (256, 512, 1024), (2, 4, 8))
    ],
    key=["N", "K"],
)
@triton.jit
def gemv(x_ptr, w_ptr, y_ptr, N, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Y = silu(w x), one row of w an output."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + offs_k, mask=offs_k < K, other=0.0).to(tl.float32)
        w = tl.load(
            w_ptr + offs_n[:, None].to(tl.int64) * K + offs_k[None, :],
            mask=(offs_n[:, None] < N) & (offs_k[None, :] < K),
            other=0.0,
        )
        acc += w.to(tl.float32) * x[None, :]
    y = tl.sum(acc, axis=1)
    tl.store(y_ptr + offs_n, y * tl.sigmoid(y), mask=offs_n < N)


# ------------------------------------------------------------------------------------- arguments


def _random(device, *shape):
    return torch.randn(shape, device=device, dtype=torch.bfloat16)


def matmul_case(device):
    M, N, K = 4096, 4096, 4096
    a, b = _random(device, M, K), _random(device, K, N)
    c = torch.empty((M, N), device=device, dtype=torch.bfloat16)

    def grid(meta):
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)

    return (a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride()), grid, {}


def softmax_case(device):
    rows, columns = 8192, 12288
    x = _random(device, rows, columns)

    def grid(meta):
        return (triton.cdiv(rows, meta["ROWS"]),)

    return (torch.empty_like(x), x, rows, columns), grid, {}


def layer_norm_case(device):
    rows, columns = 16384, 6144
    x = _random(device, rows, columns)
    weights = _random(device, columns), _random(device, columns)
    return (x, torch.empty_like(x), *weights, columns, columns, 1e-5), (rows,), {}


def attention_case(device):
    heads, length, head = 64, 2048, 64
    q, k, v = (_random(device, heads, length, head) for _ in range(3))

    def grid(meta):
        return triton.cdiv(length, meta["BLOCK_M"]), heads

    return (q, k, v, torch.empty_like(q), head**-0.5, length), grid, {"HEAD": head}


def gemv_case(device):
    N, K = 28672, 8192
    y = torch.empty(N, device=device, dtype=torch.bfloat16)

    def grid(meta):
        return (triton.cdiv(N, meta["BLOCK_N"]),)

    return (_random(device, K), _random(device, N, K), y, N, K), grid, {}


CASES = {
    "matmul": matmul_case,
    "softmax": softmax_case,
    "layer_norm": layer_norm_case,
    "attention": attention_case,
    "gemv": gemv_case,
}
