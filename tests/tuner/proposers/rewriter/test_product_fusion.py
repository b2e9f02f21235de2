"""Elementwise launches that become part of a product's."""

from __future__ import annotations

import pytest
from rewriting import variants

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
    (made,) = variants(FuseProducts(), LINEAR, **SIDES)
    assert kernels_of(made) == ["scale_kernel", "product_kernel"]
    assert "bias + n[None, :], mask=(n[None, :] < N)" in made  # e % N is the column
    assert is_right(made, LINEAR, **SIDES)


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
    (made,) = variants(FuseProducts(), ROWS, **SIDES)
    assert kernels_of(made) == ["scale_kernel", "product_kernel"]
    assert is_right(made, ROWS, **SIDES)


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


def test_a_product_with_offsets_in_64_bits_keeps_them(is_right):
    wide = LINEAR.replace("y + m[:, None] * stride", "y + m[:, None].to(tl.int64) * stride")
    fused = variants(FuseProducts(), wide, **SIDES)[0]
    assert "m[:, None].to(tl.int64) * stride" in fused
    assert kernels_of(fused) == ["scale_kernel", "product_kernel"]
    assert is_right(fused, wide, **SIDES)
