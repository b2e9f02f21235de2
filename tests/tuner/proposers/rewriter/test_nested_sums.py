"""Loops within loops that add up the same sums, as of a convolution by taps, become products."""

import pytest
from rewriting import rewritten, variants

from solkit.tuner.proposers.rewriter.row_tiles import Tile
from solkit.tuner.proposers.rewriter.vectorise import Vectorise

SIZES = {"N": 1, "C": 18, "K": 5, "L": 20}
CONVOLUTION = """
def reference(x, w):
    return torch.nn.functional.conv1d(x, w, padding=1)


def inputs(N=1, C=18, K=5, L=20, device="cuda"):
    return torch.randn(N, C, L, device=device), torch.randn(K, C, 3, device=device)


@triton.jit
def conv(x, w, y, C, K, L, TAPS: tl.constexpr, BL: tl.constexpr):
    n = tl.program_id(0)
    k = tl.program_id(1)
    at = tl.program_id(2) * BL + tl.arange(0, BL)
    total = tl.zeros([BL], tl.float32)
    for c in range(C):
        for t in tl.static_range(TAPS):
            i = at + t - TAPS // 2
            v = tl.load(x + (n * C + c) * L + i, mask=(i >= 0) & (i < L), other=0.0)
            total += v * tl.load(w + (k * C + c) * TAPS + t)
    tl.store(y + (n * K + k) * L + at, total, mask=at < L)


def kernel(x, w):
    N, C, L = x.shape
    K = w.shape[0]
    y = torch.empty((N, K, L), device=x.device)
    conv[(N, K, triton.cdiv(L, 16))](x, w, y, C, K, L, TAPS=3, BL=16)
    return y
"""
LOOPS = CONVOLUTION[CONVOLUTION.index("    for c in") : CONVOLUTION.index("    tl.store")]
BY_TAPS = CONVOLUTION.replace(
    "    for c in range(C):\n        for t in tl.static_range(TAPS):",
    "    for t in range(3):\n        for c in range(C):",
)
BY_HAND = CONVOLUTION.replace(
    LOOPS,
    """    for c in range(C):
        row = x + (n * C + c) * L + at
        first = tl.load(row - 1, mask=(at > 0) & (at <= L), other=0.0)
        total += first * tl.load(w + (k * C + c) * 3)
        total += tl.load(row, mask=at < L, other=0.0) * tl.load(w + (k * C + c) * 3 + 1)
        last = tl.load(row + 1, mask=at < L - 1, other=0.0)
        total = total + last * tl.load(w + (k * C + c) * 3 + 2)
""",
)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (CONVOLUTION, 1),
        pytest.param(BY_TAPS, 1, marks=pytest.mark.slow),
        pytest.param(BY_HAND, 3, marks=pytest.mark.slow),
    ],
)
def test_channels_become_the_summed_axis_of_products_by_taps(source, count, is_right):
    variant = variants(Tile(), source, **SIZES)[-1]
    assert variant.count("tl.dot(") == count
    assert "range(0, C, BLOCK_R)" in variant
    assert is_right(variant, source, **SIZES)


PADDED = (
    CONVOLUTION.replace("tl.static_range(TAPS)", "range(-1, 2)")
    .replace("at + t - TAPS // 2", "at + t")
    .replace("* TAPS + t)", "* TAPS + t + 1)")
)


@pytest.mark.parametrize(
    "source", [CONVOLUTION, *(pytest.param(s, marks=pytest.mark.slow) for s in (BY_TAPS, PADDED))]
)
def test_channels_and_taps_are_one_axis_of_a_product(source, is_right):
    """18 channels of 3 taps are 54 trips, which no block of a power of two divides."""
    variant = variants(Tile(), source, **SIZES)[0]
    loops = [line for line in variant.splitlines() if line.strip().startswith("for ")]
    assert len(loops) == 1
    assert variant.count("tl.dot(") == 1
    assert is_right(variant, source, **SIZES)


FLAT = CONVOLUTION.replace(
    """    n = tl.program_id(0)
    k = tl.program_id(1)
    at = tl.program_id(2) * BL""",
    """    pid = tl.program_id(0)
    n = pid // (B * K)
    k = (pid // B) % K
    at = (pid % B) * BL""",
).replace("C, K, L, TAPS: tl", "C, K, L, B, TAPS: tl")
FLAT = FLAT.replace(
    "conv[(N, K, triton.cdiv(L, 16))](x, w, y, C, K, L,",
    "B = 2\n    conv[(N * K * B,)](x, w, y, C, K, L, B,",
)


def test_outputs_of_a_flat_grid_are_a_products_side_too():
    variant = next(v for v in variants(Tile(), FLAT, **SIZES) if "tl.dot(" in v)
    assert "pid_outer" not in variant.replace("pid_outer_outer", "")
    assert "triton.cdiv(K, BLOCK_M)" in variant


@pytest.mark.slow
def test_what_a_loop_within_starts_anew_is_a_sum_of_each_element(is_right):
    source = CONVOLUTION.replace(
        "        for t in", "        part = tl.zeros([BL], tl.float32)\n        for t in"
    )
    source = source.replace("            total += v *", "            part += v *").replace(
        "    tl.store", "        total += part\n    tl.store"
    )
    (variant,) = variants(Vectorise(), source, **SIZES)
    assert is_right(variant, source, **SIZES)


def test_loops_over_a_few_taps_are_left():
    blocks = rewritten(Vectorise(), BY_TAPS, **SIZES)
    assert "for t in range(3)" in blocks
    assert "for c_start in" in blocks
    taps = BY_TAPS.replace("for c in range(C)", "for c in tl.static_range(18)")
    assert not variants(Vectorise(), taps, **SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "            total += v",
            "            tl.store(y + c * L + at, total)\n            total += v",
        ),
        ("            total += v", "            total = total * 0.5 + v"),
        ("            total += v", "            v += total\n            total += v"),
        ("static_range(TAPS):", "static_range(TAPS):\n            w += 1"),
        ("in tl.static_range(TAPS)", "in range(c)"),
        ("            total += v", "            if tl.sum(total) > 0:\n                total += v"),
        ("(i < L), other=0.0)", "(i < L) & (total < 9), other=0.0)"),
        ("    tl.store", "    total += v\n    tl.store"),  # of the last trip
    ],
)
def test_trips_that_depend_on_others_stay_in_their_order(old, new):
    assert old in CONVOLUTION
    source = CONVOLUTION.replace(old, new, 1)
    assert not any("c_start" in variant for variant in variants(Vectorise(), source, **SIZES))


def test_a_loop_within_one_that_reads_what_it_wrote_before_is_left():
    solve = BY_TAPS.replace(
        "        for c in range(C):", "        i = at + t\n        for c in range(C):"
    )
    solve = solve.replace("    tl.store", "        tl.store(x + n * L + at, total)\n    tl.store")
    assert solve.count("tl.store(x") == 1
    assert not variants(Vectorise(), solve, **SIZES)
