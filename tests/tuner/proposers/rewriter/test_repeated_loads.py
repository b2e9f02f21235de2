"""Loads at quotients of an index, each element once."""

from __future__ import annotations

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.product_fusion import FuseProducts
from solkit.tuner.proposers.rewriter.repeated_loads import RepeatedLoads
from solkit.tuner.proposers.rewriter.tile_constants import Retile

SHAPE = {"M": 20, "N": 48}
SCALED = """
def reference(x, scale):
    return x * scale.repeat_interleave(8, 1)


def inputs(M=20, N=48, device="cuda"):
    return torch.randn(M, N, device=device), torch.rand(M, N // 8, device=device)


@triton.jit
def scaled(x, scale, y, N, G: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + c, mask=c < N)
        s = tl.load(scale + row * (N // G) + c // G, mask=c < N, other=1.0)
        tl.store(y + row * N + c, v * s, mask=c < N)


def kernel(x, scale):
    M, N = x.shape
    y = torch.empty_like(x)
    scaled[(M,)](x, scale, y, N, G=8, BLOCK=32)
    return y
"""
WORDS = {"M": 16, "N": 40, "K": 64}
TRANSPOSED = """
def reference(x, packed):
    w = torch.stack([packed & 15, packed >> 4], 2).reshape(packed.shape[0], -1)
    return x @ w.to(x.dtype).t()


def inputs(M=16, N=40, K=64, device="cuda"):
    packed = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=device)
    return torch.randn(M, K, device=device), packed


@triton.jit
def unpack(packed, w, total, K, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(packed + i // K * (K // 2) + i % K // 2, mask=i < total, other=0)
    tl.store(w + i, ((b >> (i % 2 * 4)) & 15).to(w.dtype.element_ty), mask=i < total)


@triton.jit
def product(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        at = k + step * BK
        a = tl.load(x + m[:, None] * K + at[None, :],
                    mask=(m[:, None] < M) & (at[None, :] < K), other=0)
        b = tl.load(w + n[None, :] * K + k[:, None] + step * BK,
                    mask=(n[None, :] < N) & (k[:, None] < left), other=0)
        acc += tl.dot(a, b)
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def kernel(x, packed):
    M, K = x.shape
    N = packed.shape[0]
    w = torch.empty((N, K), dtype=x.dtype, device=x.device)
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    unpack[(triton.cdiv(N * K, 256),)](packed, w, N * K, K, BLOCK=256)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    product[grid](x, w, y, M, N, K, BM=16, BN=16, BK=16)
    return y
"""


def test_a_run_of_indices_is_loaded_once(is_right):
    (variant,) = variants(RepeatedLoads(), SCALED.replace("// G", "// 8"), **SHAPE)
    assert "tl.arange(0, BLOCK // min(BLOCK, 8)) * min(BLOCK, 8)" in variant
    assert is_right(variant, SCALED, **SHAPE)


def test_blocks_within_a_run_load_one_element(is_right):
    source = SCALED.replace("// G", "// 8").replace("BLOCK=32", "BLOCK=4")
    (variant,) = variants(RepeatedLoads(), source, **SHAPE)
    assert is_right(variant, SCALED, **SHAPE)


def test_unpacking_becomes_part_of_a_product_with_transposed_weights(is_right):
    fused = variants(FuseProducts(), TRANSPOSED, **WORDS)[0]
    assert "i // K" not in fused
    (variant,) = variants(RepeatedLoads(), fused.removeprefix(HEADER), **WORDS)
    assert is_right(variant, TRANSPOSED, **WORDS)


def test_runs_without_a_mask_keep_blocks_that_divide_the_row():
    """A larger block would read groups that are not there."""
    source = SCALED.replace("// G", "// 8").replace("c // 8, mask=c < N, other=1.0", "c // 8")
    assert "if N % BLOCK != 0:" in variants(Retile(), source, **SHAPE)[0]
    (runs,) = variants(RepeatedLoads(), source, **SHAPE)
    assert "if N % BLOCK != 0:" in variants(Retile(), runs.removeprefix(HEADER), **SHAPE)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c // 8, mask", "c // 6, mask"),  # runs that blocks cut
        ("c // 8, mask", "c // 8 + c % 2, mask"),
        ("c = start + tl", "c = start + 1 + tl"),
        ("scale + row * (N // 8) + c // 8, mask=c < N", "scale + c // 8, mask=c > row"),
    ],
)
def test_near_misses_are_left_alone(old, new):
    source = SCALED.replace("// G", "// 8")
    assert old in source
    assert not variants(RepeatedLoads(), source.replace(old, new), **SHAPE)
