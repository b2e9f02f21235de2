"""References that spell out linear work over pairs: what the best kernel needs, and no more.

An upper end of a range is a kernel by hand, named beside it; fewer operations may do.
"""

from __future__ import annotations

import pytest

F, I64 = 4, 8  # bytes of a float32 and of an int64
MASK = "torch.where(a0[:, None, :], d, 1e4)"
BISECTIONS = """
low, high = a0.amin(-1, True) - 1, a0.amax(-1, True)
for _ in range(16):
    middle = (low + high) / 2
    above = (torch.relu(a0 - middle) ** POWER).sum(-1, True) > 1
    low, high = torch.where(above, middle, low), torch.where(above, high, middle)
return torch.relu(a0 - low) ** POWER
"""
PLACES = "i = arange(64, d=f32)\nd = (i[:, None] - i[None, :]) ** 2\n"

PROBLEMS = {
    "a running sum as a product with a triangle": (
        "R(8, 64)",
        "return a0 @ torch.ones(64, 64, device='cuda').triu()",
        {"fp32": (0, 8 * 63)},
        F * 512,
        F * 512,
    ),
    "a running sum of a vector, as a product with a triangle": (
        "R(64)",
        "return torch.ones(64, 64, device='cuda').tril() @ a0",
        {"fp32": (0, 63)},
        F * 64,
        F * 64,
    ),
    "a running sum by a mask": (
        "R(8, 64)",
        "m = arange(64)[:, None] >= arange(64)\nreturn (a0[:, None, :] * m).sum(-1)",
        {"fp32": (0, 8 * 63)},
        F * 512,
        F * 512,
    ),
    "sums of windows of 8 as a product with a band: each sum of 8 shares 7 terms": (
        "R(8, 64)",
        "i = arange(64)\nd = i[:, None] - i\nreturn a0 @ ((d >= 0) & (d < 8)).float()",
        {"fp32": (0, 2 * 8 * 64)},
        F * 512,
        F * 512,
    ),
    "a cosine transform as a product: FFT": (
        "R(8, 64)",
        "k = arange(64, d=f32)\nreturn a0 @ torch.cos(0.049 * k[:, None] * (k + 0.5))",
        {"fp32": (0, 8 * 4 * 64 * 6)},  # 4 n log n
        F * 512,
        F * 512,
    ),
    "the distance to the nearest true place of a row: two sweeps": (
        "I(2, 8, 64).bool()",
        PLACES + f"return {MASK}.amin(-1).sqrt()",
        {"fp32": (0, 8 * 64 * 4), "int32": (0, 8 * 64 * 4), "sfu": (0, 512)},
        512,
        F * 512,
        "a place far from the next true one is not needed",
    ),
    "the lower envelope of parabolas: linear (Felzenszwalb and Huttenlocher, 2012)": (
        "R(8, 64)",
        PLACES + "return (a0[:, None, :] + d).amin(-1)",
        {"fp32": (0, 8 * 64 * 10)},
        F * 512,
        F * 512,
        "a high parabola is nowhere the least",
    ),
    "counts of numbers by comparison with each bin": (
        "I(16, 512)",
        "return (a0[:, None] == arange(16)).sum(0)",
        {"int32": (512 - 16, 512)},
        I64 * 512,
        I64 * 16,
    ),
    "the bin of each number, by comparison with each edge: a search of 4 steps": (
        "R(512)",
        "return (a0[:, None] > torch.linspace(-3, 3, 15, device='cuda')).sum(1)",
        {"int32": (0, 512 * 4), "fp32": (0, 512 * 4)},
        F * 512,
        I64 * 512,
        "truths do not change by a small step",
    ),
    "ranks by comparison of all pairs: a sort": (
        "R(8, 64)",
        "return (a0[:, :, None] > a0[:, None, :]).sum(-1)",
        {"int32": (0, 8 * 64 * 6), "fp32": (0, 8 * 64 * 6)},
        F * 512,
        I64 * 512,
        "truths do not change by a small step",
    ),
    "the least of all sums": (
        "R(8, 64); R(8, 32)",
        "return (a0[:, :, None] + a1[:, None, :]).amin(-1)",
        {"fp32": (8 * 32, 8 * 31 + 8 * 64)},
        F * 8 * 96,
        F * 512,
        "numbers above the least are not needed",
    ),
    "sums of squared differences: two sums, and a polynomial": (
        "R(8, 64); R(8, 32)",
        "return (a0[:, :, None] - a1[:, None, :]).square().sum(-1)",
        {"fp32": (0, 8 * 32 * 3 + 8 * 64 * 5)},
        F * 8 * 96,
        F * 512,
    ),
    "the share of pairs that are in order (the area under a ROC curve): a sort": (
        "R(4, 64); R(4, 32)",
        "return (a0[:, :, None] > a1[:, None, :]).float().mean()",
        {"fp32": (0, 4 * 96 * 7), "int32": (0, 4 * 96 * 7)},
        F * 4 * 96,
        F,
        "truths do not change by a small step",
    ),
    "hinges of all pairs: a sort and running sums": (
        "R(64); R(32)",
        "return torch.relu(1 - (a0[:, None] - a1)).sum()",
        {"fp32": (0, 96 * 7 + 64 * 3)},
        F * 96,
        F,
        "a pair far apart is not needed",
    ),
    "the largest difference from a number of the row: behind the maximum": (
        "R(8, 64); R(8, 1)",
        "return (a0 - a1).amax(1)",
        {"fp32": 8 * 63 + 8},
        F * 8 * 65,
        F * 8,
        "numbers below the largest are not needed",
    ),
    "a sum of products with one factor a row, times a number": (
        "R(8, 64); R(8, 1)",
        "return (a0 * a1).sum(1) + (a0 * 3).mean(1)",
        {"fp32": (8 * 63 + 8, 2 * 8 * 64 + 3 * 8)},
        F * 8 * 65,
        F * 8,
    ),
    "the largest of products: a factor may be negative, so both extrema": (
        "R(8, 64); R(8, 1)",
        "return (a0 * a1).amax(1)",
        {"fp32": 8 * (64 + 63)},
        F * 8 * 65,
        F * 8,
        "numbers below the largest are not needed",
    ),
    "maxima of windows that an index names": (
        "R(8, 64)",
        "i = arange(57)[:, None] + arange(8)\nreturn a0[:, i].amax(-1)",
        {"fp32": (0, 3 * 8 * 64)},  # van Herk, 1992: 3 comparisons an element
        F * 512,
        F * 8 * 57,
        "numbers below the largest are not needed",
    ),
    "sums of slices that overlap, in a loop": (
        "R(8, 64)",
        "return torch.stack([a0[:, i : i + 32].sum(1) for i in range(33)], 1)",
        {"fp32": (8 * 33, 8 * (31 + 2 * 32))},
        F * 512,
        F * 8 * 33,
    ),
    "places of tokens in their groups, of running sums of one-hot rows: a count for each group": (
        "I(16, 512)",
        "hot = (a0[:, None] == arange(16)).long()\nplace = hot.cumsum(0) - 1\n"
        "return place.gather(1, a0[:, None])[:, 0], (place * hot).sum(1)",
        {"int32": (0, 3 * 512)},
        I64 * 512,
        I64 * 1024,
        "integers do not change by a small step",
    ),
    "sixteen bisections of a row's threshold: a sort, running sums, a search and the result": (
        "R(8, 64)",
        BISECTIONS.replace("POWER", "2"),
        {"fp32": (2 * 512, 8 * 64 * (6 + 2 + 2 + 3) + 8 * 64), "int32": (0, 16 * 8)},
        F * 512,
        F * 512,
        "numbers below the threshold are not needed",
    ),
    "bisections of a sum of other powers: one visit of them, and the result": (
        "R(8, 64)",
        BISECTIONS.replace("POWER", "2.5"),
        # a difference, a ReLU, two products, and a sum of one visit; both ends of the search
        {"fp32": (4 * 512, (4 + 5 + 2) * 512 + 4 * 16 * 8), "sfu": 2 * 512, "int32": (0, 16 * 8)},
        F * 512,
        F * 512,
        "numbers below the threshold are not needed",
    ),
    # ------------------------------------------------- pairs that a kernel visits, as the reference
    "sums of exponentials that are more than compared: every one": (
        "R(8, 64); R(8, 1, 5)",
        "return torch.stack([torch.exp(a0 * a1[..., i]).sum(-1) for i in range(5)])",
        {"fp32": 5 * (512 + 8 * 63), "sfu": 5 * 512},
        F * (512 + 40),
        F * 40,
    ),
    "the nearest of points in space: every pair": (
        "R(64, 3); R(32, 3)",
        "return (a0[:, None, :] - a1).square().sum(-1).amin(1)",
        {"fp32": 64 * 32 * (3 + 3 + 2) + 64 * 31},
        F * 96 * 3,
        F * 64,
        "points that are far are not needed",
    ),
    "a product of minima and sums: every term": (
        "R(8, 16, 16); R(8, 16, 16)",
        "return (a0[:, :, :, None] + a1[:, None, :, :]).amin(2)",
        {"fp32": 8 * 16 * 16 * (16 + 15)},
        F * 2 * 8 * 256,
        F * 8 * 256,
        "sums above the least are not needed",
    ),
    "a product by hand": (
        "R(16, 32); R(32, 8)",
        "return (a0[:, :, None] * a1).sum(1)",
        {"contraction.fp32": 2 * 16 * 8 * 32},
        F * (512 + 256),
        F * 128,
    ),
    "a product by hand of three factors, one of which scales another": (
        "R(16, 32); R(8, 32, d=bf16); R(8)",
        "return (a0[:, None] * a1.float() * a2[:, None] * 0.5).sum(-1)",
        {"contraction.fp32": 2 * 16 * 8 * 32, "fp32": (0, 8 * 32 + 16 * 8)},
        F * (512 + 8) + 2 * 256,
        F * 128,
    ),
    "distances of points of many coordinates: a product": (
        "R(16, 32); R(8, 32)",
        "return ((a0[:, None] - a1) ** 2).sum(-1)",
        {"contraction.fp32": 2 * 16 * 8 * 32},
        F * (512 + 256),
        F * 128,
    ),
    "distances within one set: a triangle": (
        "R(16, 32)",
        "return (a0[:, None] - a0).square().mean(-1)",
        {"contraction.fp32": (16 * 15 * 32, 17 * 16 * 32)},
        F * 512,
        F * 256,
    ),
    "cosines of all pairs: norms of points, and a product": (
        "R(16, 32); R(8, 32)",
        "return F.cosine_similarity(a0[:, None], a1[None], dim=-1)",
        {
            "contraction.fp32": 2 * 16 * 8 * 32,
            "fp32": (2 * 24 * 32, 4 * 24 * 32),  # squares and sums, and quotients
            "sfu": (24, 48),
        },
        F * (512 + 256),
        F * 128,
    ),
    "distances within one set, by cdist": (
        "R(16, 32)",
        "return torch.cdist(a0, a0)",
        {"contraction.fp32": 16 * 15 * 32, "sfu": 16 * 15 // 2},
        F * 512,
        F * 256,
    ),
    "the sum of one number": (
        "R(1); R(1)",
        "return (a0[0] * a1[0]).sum()",
        {"fp32": 1},
        F * 2,
        F,
    ),
    "a weighted sum of lines: no matrix product": (
        "R(16, 32); R(32)",
        "return (a0 * a1).sum(1)",
        {"fp32": 16 * (32 + 31)},
        F * (512 + 32),
        F * 16,
    ),
    "differences that are a result, too": (
        "R(16, 32); R(8, 32)",
        "d = a0[:, None] - a1\nreturn d, d.square().sum(-1)",
        {"fp32": 16 * 8 * 32, "contraction.fp32": 2 * 16 * 8 * 32},
        F * (512 + 256),
        F * (4096 + 128),
    ),
    "a sum of exponentials of differences: every term": (
        "R(64); R(32)",
        "return torch.exp(a0[:, None] * a1).sum(1)",
        {"fp32": 64 * 32 + 64 * 31, "sfu": 64 * 32},
        F * 96,
        F * 64,
    ),
    "pairs that are a result: every one": (
        "R(64); R(32)",
        "d = a0[:, None] - a1\nreturn d, d.sum(1)",
        {"fp32": (64 * 32, 64 * 32 + 64 * 31)},
        F * 96,
        F * (64 * 32 + 64),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_derived_bytes_are_what_brute_force_finds(check_derivation, name):
    check_derivation(PROBLEMS, name)


@pytest.mark.parametrize(
    ("name", "is_assumed"),
    [
        ("the nearest of points in space: every pair", True),
        ("the least of all sums", False),
        ("a product by hand", False),
        ("a sum of exponentials of differences: every term", False),
    ],
)
def test_distances_of_points_that_count_are_an_assumption(traced, name, is_assumed):
    assumptions = traced(PROBLEMS, name).assumptions
    assert any(line.startswith("Every pair") for line in assumptions) == is_assumed
