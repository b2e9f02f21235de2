"""Elementwise launches that become part of a product's."""

from __future__ import annotations

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.product_fusion import FuseProducts

SIDES = {"M": 24, "N": 20, "K": 24}

LINEAR = """
import torch.nn.functional as F

TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x, w, bias):
    return torch.relu(x @ w + bias)


def inputs(M=24, N=20, K=24, device="cuda"):
    w = torch.randn(K, N, device=device) * K**-0.5
    return torch.randn(M, K, device=device), w, torch.randn(N, device=device)


@triton.jit
def scale_kernel(src, dst, count, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(src + e, mask=e < count)
    tl.store(dst + e, v * 1.0, mask=e < count)


@triton.jit
def product_kernel(x, w, y, M, N, K, stride, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k0 in range(0, K, B):
        k = k0 + tl.arange(0, B)
        a = tl.load(x + m[:, None] * K + k[None, :],
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(w + k[:, None] * N + n[None, :],
                    mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(y + m[:, None] * stride + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def bias_relu(y, bias, out, count, N, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(y + e, mask=e < count)
    v = v + tl.load(bias + e % N, mask=e < count)
    tl.store(out + e, tl.maximum(v, 0.0), mask=e < count)


def kernel(x, w, bias):
    (M, K), N = x.shape, w.shape[1]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    product_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, w, y, M, N, K, y.stride(0), B=16)
    out = torch.empty_like(y)
    bias_relu[(triton.cdiv(M * N, 64),)](y, bias, out, M * N, N, BLOCK=64)
    return out
"""
LAUNCH = "    bias_relu[(triton.cdiv(M * N, 64),)](y, bias, out, M * N, N, BLOCK=64)\n"


def kernels_of(source: str) -> list[str]:
    return [part.split("(")[0] for part in source.split("@triton.jit\ndef ")[1:]]


def test_what_follows_a_product_is_done_to_its_sums(is_right):
    (variant,) = variants(FuseProducts(), LINEAR, **SIDES)
    assert kernels_of(variant) == ["scale_kernel", "product_kernel"]
    assert "bias + n[None, :], mask=(n[None, :] < N)" in variant  # e % N is the column
    assert is_right(variant, LINEAR, **SIDES)


ROWS = LINEAR.replace(
    LINEAR[LINEAR.index("@triton.jit\ndef bias_relu") : LINEAR.index("def kernel(")],
    """@triton.jit
def bias_relu(y, bias, width, WIDTH: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, WIDTH)
    at = y + r * width + c
    v = tl.load(at, mask=c < width) + tl.load(bias + c, mask=c < width)
    tl.store(at, tl.maximum(v, 0.0), mask=c < width)


""",
).replace(
    "    out = torch.empty_like(y)\n" + LAUNCH + "    return out",
    "    bias_relu[(M,)](y, bias, N, WIDTH=triton.next_power_of_2(N))\n    return y",
)


def test_rows_that_change_in_place_become_part_too(is_right):
    (variant,) = variants(FuseProducts(), ROWS, **SIDES)
    assert kernels_of(variant) == ["scale_kernel", "product_kernel"]
    assert is_right(variant, ROWS, **SIDES)


def test_rows_of_another_length_are_not_the_products():
    other = ROWS.replace("(y, bias, N, WIDTH", "(y, bias, K, WIDTH")
    assert not variants(FuseProducts(), other, **SIDES)


AHEAD = LINEAR.replace(
    "    y = torch.empty((M, N)",
    "    xs = torch.empty_like(x)\n"
    "    scale_kernel[(triton.cdiv(M * K, 64),)](x, xs, M * K, BLOCK=64)\n"
    "    y = torch.empty((M, N)",
).replace("](x, w, y,", "](xs, w, y,")


def test_what_precedes_a_product_is_done_as_it_loads(is_right):
    first, second = variants(FuseProducts(), AHEAD, **SIDES)
    assert kernels_of(first) == ["product_kernel"]
    assert len(kernels_of(second)) == 2
    assert "xs" not in first
    assert is_right(first, AHEAD, **SIDES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return out", "return out + y"),  # the sums themselves are needed
        (LAUNCH, "    y.mul_(2.0)\n" + LAUNCH),  # something else happens between
        (LAUNCH, LAUNCH.replace("out, M", "x, M")),  # which other programs still read
        ("e % N, mask", "tl.sum(v, 0).to(tl.int32), mask"),  # not element by element
        ("tl.load(y + e, mask=e < count)", "tl.load(y + e + 1, mask=e < count)"),
    ],
    ids=["used", "changed", "read", "reduced", "shifted"],
)
def test_other_launches_stay(old, new):
    source = LINEAR.replace(old, new)
    assert source != LINEAR
    assert not variants(FuseProducts(), source, **SIDES)


@pytest.mark.parametrize(
    "out",
    [
        "x.view(-1)",  # which other programs still read
        "torch.zeros_like(y)",  # where the rest is 0
    ],
)
def test_what_only_a_part_of_the_programs_may_write_stays(out):
    half = LINEAR.replace("triton.cdiv(M * N, 64)", "triton.cdiv(M * N, 128)")
    assert variants(FuseProducts(), half, **SIDES)
    assert not variants(FuseProducts(), half.replace("torch.empty_like(y)", out), **SIDES)


def test_a_product_with_offsets_in_64_bits_keeps_them(is_right):
    wide = LINEAR.replace("y + m[:, None] * stride", "y + m[:, None].to(tl.int64) * stride")
    fused = variants(FuseProducts(), wide, **SIDES)[0]
    assert "m[:, None].to(tl.int64) * stride" in fused
    assert kernels_of(fused) == ["scale_kernel", "product_kernel"]
    assert is_right(fused, wide, **SIDES)


BLOCK_POINTERS = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(a, b, bias, res):
    return a @ b + bias + res


def inputs(M=24, N=20, K=24, device="cuda"):
    def t(*s):
        return torch.randn(*s, device=device)

    return t(M, K), t(K, N), t(N), t(M, N)


@triton.jit
def mm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    pa = tl.make_block_ptr(a, (M, K), (K, 1), (i * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (N, 1), (0, j * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        at = tl.load(pa, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(at, tl.load(pb, boundary_check=(0, 1), padding_option="zero"), acc)
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (M, N), (N, 1), (i * BM, j * BN), (BM, BN), (1, 0))
    tl.store(pc, acc, boundary_check=(0, 1))


@triton.jit
def add(c, bias, res, out, K, M, BM: tl.constexpr, BN: tl.constexpr):
    j, i = tl.program_id(0), tl.program_id(1)
    pc = tl.make_block_ptr(c, (K, M), (M, 1), (j * BM, i * BN), (BM, BN), (1, 0))
    pr = tl.make_block_ptr(res, (K, M), (M, 1), (j * BM, i * BN), (BM, BN), (1, 0))
    po = tl.make_block_ptr(out, (K, M), (M, 1), (j * BM, i * BN), (BM, BN), (1, 0))
    n = i * BN + tl.arange(0, BN)
    v = tl.load(pc, boundary_check=(0, 1)) + tl.load(bias + n, mask=n < M, other=0.0)[None, :]
    v += tl.load(pr, boundary_check=(0, 1))
    tl.store(po, v, boundary_check=(0, 1))


def kernel(a, b, bias, res):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=torch.float32, device=a.device)
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    mm[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, c, M, N, K, BM=16, BN=16, BK=16)
    add[(triton.cdiv(M, 16), triton.cdiv(N, 32))](c, bias, res, out, M, N, BM=16, BN=32)
    return out
"""


def test_an_epilogue_by_block_pointers_joins_though_its_names_mean_something_else(is_right):
    plain = canonical_form(HEADER + BLOCK_POINTERS).removeprefix(HEADER)
    (fused,) = variants(FuseProducts(), plain, **SIDES)
    assert kernels_of(fused) == ["mm"]
    assert is_right(fused, plain, **SIDES)


CHANNELS = """
import torch.nn.functional as F

TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x, w, scale):
    return F.relu(F.conv1d(F.relu(x), w) * scale[:, None])


def inputs(N=2, C=5, K=6, L=21, device="cuda"):
    w = torch.randn(K, C, 3, device=device)
    return torch.randn(N, C, L, device=device), w, torch.rand(K, device=device)


@triton.jit
def relu(src, dst, count, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(src + e, mask=e < count)
    tl.store(dst + e, tl.maximum(v, 0.0), mask=e < count)


@triton.jit
def conv(x, w, y, N, C, K, L, P, R, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    k = tl.program_id(1) * B + tl.arange(0, B)
    n = m // P
    p = m % P
    acc = tl.zeros((B, B), dtype=tl.float32)
    for r0 in range(0, R, B):
        r = r0 + tl.arange(0, B)
        at = n[:, None] * C * L + (r // 3)[None, :] * L + p[:, None] + (r % 3)[None, :]
        a = tl.load(x + at, mask=(m[:, None] < N * P) & (r[None, :] < R), other=0.0)
        b = tl.load(w + k[None, :] * R + r[:, None], mask=(r[:, None] < R) & (k[None, :] < K))
        acc += tl.dot(a, b)
    inside = (m[:, None] < N * P) & (k[None, :] < K)
    tl.store(y + (n[:, None] * K + k[None, :]) * P + p[:, None], acc, mask=inside)


@triton.jit
def scaled(y, scale, out, count, K, P, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(y + e, mask=e < count) * tl.load(scale + e // P % K, mask=e < count)
    tl.store(out + e, tl.maximum(v, 0.0), mask=e < count)


def kernel(x, w, scale):
    (N, C, L), K = x.shape, w.shape[0]
    P = L - 2
    h = torch.empty_like(x)
    relu[(triton.cdiv(N * C * L, 64),)](x, h, N * C * L, BLOCK=64)
    y = torch.empty((N, K, P), device=x.device)
    conv[(triton.cdiv(N * P, 16), triton.cdiv(K, 16))](h, w, y, N, C, K, L, P, C * 3, B=16)
    out = torch.empty_like(y)
    scaled[(triton.cdiv(N * K * P, 64),)](y, scale, out, N * K * P, K, P, BLOCK=64)
    return out
"""


def test_tensors_of_more_axes_than_a_products_tile_join_by_the_place_of_each_element(is_right):
    joined = variants(FuseProducts(), CHANNELS)[0]
    assert kernels_of(joined) == ["conv"]
    assert is_right(joined, CHANNELS)


SUMS = """
def reference(x, b):
    sums = (3 * x).sum(0).int().float()  # towards 0, as it is stored
    sums.view(-1)[-2:] = 4.0
    return torch.relu(sums + b[:, None])


def inputs(M=5, N=6, K=3, device="cuda"):
    return torch.randn(K, M, N, device=device), torch.randn(M, device=device)


@triton.jit
def sums_kernel(x, s, M, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for k in range(K):
        acc += 3 * tl.load(x + (k * M + row) * N + c, mask=c < N, other=0.0)
    tl.store(s + row * N + c, acc, mask=c < N)


@triton.jit
def relu_kernel(s, b, out, count, N, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(s + e, mask=e < count - 2, other=4)
    v = v + tl.load(b + e // N, mask=e < count)
    tl.store(out + e, tl.maximum(v, 0.0), mask=e < count)


def kernel(x, b):
    K, M, N = x.shape
    s = torch.empty(M, N, dtype=torch.int32, device=x.device)
    out = torch.empty(M, N, device=x.device)
    sums_kernel[(M,)](x, s, M, N, K, BLOCK=triton.next_power_of_2(N))
    relu_kernel[(triton.cdiv(M * N, 64),)](s, b, out, M * N, N, BLOCK=64)
    return out
"""


def test_what_follows_sums_gets_them_as_memory_holds_them(is_right):
    (variant,) = variants(FuseProducts(), SUMS, M=5, N=6, K=3)
    assert kernels_of(variant) == ["sums_kernel"]
    assert is_right(variant, SUMS, M=5, N=6, K=3)
