"""Flat indices that become tiles, and launches on grids that differ which become one."""

import pytest
from rewriting import rewritten, variants

from solkit.tuner.proposers.rewriter.flat_index import Unflatten
from solkit.tuner.proposers.rewriter.fusion import FuseLaunches

TURN = """
def reference(x, b):
    return x.transpose(1, 2).contiguous() + b


def inputs(N=2, C=6, P=10, device="cuda"):
    return torch.randn(N, C, P, device=device), torch.randn(C, device=device)


@triton.jit
def turn(x, b, y, total, C, P, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    ok = o < total
    row = o // C
    c = o - row * C
    v = tl.load(x + ((o // (C * P)) * C + c) * P + row % P, mask=ok)
    tl.store(y + o, v + tl.load(b + c, mask=ok), mask=ok)


def kernel(x, b):
    N, C, P = x.shape
    y = torch.empty((N, P, C), device=x.device)
    turn[(triton.cdiv(x.numel(), 32),)](x, b, y, x.numel(), C, P, B=32)
    return y
"""
SIZES = {"N": 2, "C": 20, "P": 70}

CHAIN = """
def reference(x, b):
    return torch.relu(x * 2 + b).sum(-1)


def inputs(M=8, N=40, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(N, device=device)


@triton.jit
def double(x, t, n, B: tl.constexpr):
    base = tl.program_id(0) * B
    i = base + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    v = v * 2.0
    tl.store(t + i, v, mask=i < n)


@triton.jit
def add(t, b, N, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    p = t + row * N + c
    tl.store(p, tl.load(p, mask=c < N) + tl.load(b + c, mask=c < N), mask=c < N)


@triton.jit
def total(t, out, N, B: tl.constexpr):
    row = tl.program_id(0)
    s = 0.0
    for o in range(0, N, B):
        c = o + tl.arange(0, B)
        v = tl.load(t + row * N + c, mask=c < N, other=0.0)
        s += tl.sum(tl.maximum(v, 0.0), axis=0)
    tl.store(out + row, s)


def kernel(x, b):
    M, N = x.shape
    t = torch.empty(M, N, device=x.device)
    out = torch.empty(M, device=x.device)
    double[(triton.cdiv(M * N, 64),)](x, t, M * N, B=64)
    add[(M, triton.cdiv(N, 16))](t, b, N, B=16)
    total[(M,)](t, out, N, B=32)
    return out
"""
ROWS = {"M": 5, "N": 40}


def test_a_flat_index_becomes_a_tile(is_right):
    variant = variants(Unflatten(), TURN, **SIZES)[0]
    body = variant.split("def turn")[1].split("def kernel")[0]
    assert "[:, None]" in body
    assert body.count("//") == 2  # of the program's index, and of the row
    assert "tl.load(b + c, mask=(tile_column < C))" in body  # of what varies along columns alone
    assert is_right(variant, TURN, **SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v + tl.load(b + c, mask=ok)", "v + tl.sum(tl.load(b + c, mask=ok), axis=0)"),
        ("mask=ok), mask=ok)", "mask=ok & (row > 0)), mask=ok)"),  # other rows of columns' values
        ("mask=ok), mask=ok)", "mask=o < total // 2, other=1.0), mask=ok)"),  # half of the rows
        ("(triton.cdiv(x.numel(), 32),)", "(x.numel() // 32,)"),
    ],
)
def test_a_flat_index_that_is_no_tile_stays(old, new):
    new_variants = variants(Unflatten(), TURN.replace(old, new), **SIZES)
    assert not any("o = tile_row * C + tile_column" in new_variant for new_variant in new_variants)


@pytest.mark.parametrize(("product", "is_start"), [("C * (o // C)", True), ("C * o // C", False)])
def test_a_product_begins_a_row_only_with_the_brackets_that_it_needs(product, is_start):
    new = TURN.replace("c = o - row * C", f"c = o - {product}")
    variant = variants(Unflatten(), new, **SIZES)[0]
    assert ("c = tile_column" in variant) is is_start


def test_chains_on_several_grids_become_one_launch(is_right):
    (variant,) = variants(FuseLaunches(), CHAIN, **ROWS)
    assert variant.count("@triton.jit") == 1
    assert variant.count("torch.empty(") == 1
    assert is_right(variant, CHAIN, **ROWS)


def test_a_tensor_that_is_used_otherwise_is_kept():
    kept = CHAIN.replace("    return out\n", "    return out + t.sum()\n")
    assert not variants(FuseLaunches(), kept, **ROWS)


def test_fused_launches_are_fused_no_further():
    assert not variants(FuseLaunches(), rewritten(FuseLaunches(), CHAIN, **ROWS), **ROWS)


TILES = """
def reference(x):
    return torch.exp(x) + x


def inputs(M=21, N=37, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def exponential(x, t, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None].to(tl.int64) * N + n[None, :], mask=inside, other=0.0)
    tl.store(t + m[:, None].to(tl.int64) * N + n[None, :], tl.exp(v), mask=inside)


@triton.jit
def add(x, t, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + at, mask=inside) + tl.load(t + at, mask=inside)
    tl.store(y + at, v, mask=inside)


def kernel(x):
    M, N = x.shape
    t = torch.empty_like(x)
    y = torch.empty_like(x)
    exponential[(triton.cdiv(M, 4), triton.cdiv(N, 16))](x, t, M, N, BM=4, BN=16)
    add[(triton.cdiv(M, 8), triton.cdiv(N, 8))](x, t, y, M, N, BM=8, BN=8)
    return y
"""


def test_chains_of_tiles_become_one_launch(is_right):
    (fused,) = variants(FuseLaunches(), TILES, M=21, N=37)
    assert fused.count("@triton.jit") == 1
    assert is_right(fused, TILES, M=21, N=37)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at = m[:, None] * N + n[None, :]", "at = m[None, :] * N + n[:, None]"),  # turned
        ("at = m[:, None] * N + n[None, :]", "at = n[:, None] + m[None, :] * N"),
        ("at = m[:, None] * N", "at = m[:, None] * M"),
        ("add[(triton.cdiv(M, 8),", "add[(triton.cdiv(N, 8),"),
    ],
)
def test_tiles_that_are_read_otherwise_stay_apart(old, new):
    assert not variants(FuseLaunches(), TILES.replace(old, new), M=21, N=37)


WINDOWS = """
def reference(x):
    return torch.nn.functional.max_pool2d(x[None], 3, 2, 1)[0]


def inputs(N=2, H=19, W=23, device="cuda"):
    return (torch.randn(N, H, W, device=device),)


@triton.jit
def pool(x_ptr, y_ptr, total, H, W, OH, OW, K: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = at < total
    column = at % OW
    row = (at // OW) % OH
    image = at // (OW * OH)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for i in range(K):
        for j in tl.static_range(K):
            h = row * 2 + i - 1
            w = column * 2 + j - 1
            inside = ok & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            v = tl.load(x_ptr + image * H * W + h * W + w, mask=inside, other=float("-inf"))
            best = tl.maximum(best, v)
    tl.store(y_ptr + at, best, mask=ok)


def kernel(x):
    N, H, W = x.shape
    OH, OW = (H + 1) // 2, (W + 1) // 2
    y = torch.empty((N, OH, OW), device=x.device)
    total = N * OH * OW
    pool[(triton.cdiv(total, 32),)](x, y, total, H, W, OH, OW, K=3, BLOCK=32)
    return y
"""


@pytest.mark.slow
def test_windows_of_a_flat_index_become_windows_of_a_tile(is_right):
    shape = {"N": 2, "H": 19, "W": 23}
    source = variants(Unflatten(), WINDOWS, **shape)[0]
    assert "tl.full((BLOCK_R, BLOCK_C)" in source
    assert "% OW" not in source
    assert is_right(source, WINDOWS, **shape)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for i in range(K):", "for i in tl.arange(0, K):"),
        ("            best = tl.maximum(best, v)", "            best = tl.max(v)"),
        ("tl.full([BLOCK],", "tl.full([BLOCK + 0],"),
    ],
)
def test_loops_and_blocks_of_other_forms_stay_flat(old, new):
    assert WINDOWS.count(old) == 1
    assert not variants(Unflatten(), WINDOWS.replace(old, new), N=2, H=19, W=23)
