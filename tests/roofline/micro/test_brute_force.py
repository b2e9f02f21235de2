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
    # ------------------------------------------------------------- sides of pairs taken apart
    "sums of sines of differences: sums of sines and of cosines": (
        "R(64); R(32)",
        "return torch.cos(2 * (a0[:, None] - a1)).sum(1)",
        {"fp32": (0, 64 * 4 + 32 * 3), "sfu": (0, 2 * 96)},
        F * 96,
        F * 64,
    ),
    "sines of differences that are a result: sines of the terms": (
        "R(64); R(32)",
        "return torch.sin(a0[:, None] - a1)",
        {"fp32": (64 * 32, 3 * 64 * 32), "sfu": 2 * 96},
        F * 96,
        F * 64 * 32,
    ),
    "norms of outer products: products of norms": (
        "R(16, 32); R(16, 8)",
        "return (a0[:, :, None] * a1[:, None]).flatten(1).norm(dim=1)",
        {"fp32": (0, 2 * 16 * 40 + 16), "sfu": (0, 16)},
        F * 16 * 40,
        F * 16,
    ),
    "hinges of pairs of other classes, line by line: sorts": (
        "R(8, 64); R(8, 32); I(4, 64); I(4, 32)",
        "m = (a2[:, None] != a3).float()\n"
        "return (torch.relu(1 - a0[:, :, None] + a1[:, None]) * m).sum()",
        {"fp32": (0, 8 * 96 * 4 * 7), "int32": (0, 8 * 96 * 7 + 64 * 32)},
        F * 8 * 96 + I64 * 96,
        F,
        "a pair far apart is not needed",
    ),
    "distances scaled along the coordinates: two products": (
        "R(16, 32); R(8, 32); R(8, 32)",
        "return ((a0[:, None] - a1) / a2).square().sum(-1)",
        {"contraction.fp32": 2 * 2 * 16 * 8 * 32, "fp32": (0, 16 * 32 + 8 * 64), "sfu": (0, 256)},
        F * (512 + 512),
        F * 128,
    ),
    "distances scaled line by line: one product": (
        "R(16, 32); R(8, 32); R(8, 1)",
        "return ((a0[:, None] - a1) ** 2 * a2).sum(-1)",
        {"contraction.fp32": 2 * 16 * 8 * 32, "fp32": (0, 3 * 128)},
        F * (512 + 256 + 8),
        F * 128,
    ),
    # ------------------------------------------------------------- functions that are not needed
    "roots that are compared": (
        "R(8, 64).abs()",
        "return (torch.sqrt(a0) * 2 < 1).sum(1)",
        {"fp32": (512, 2 * 512), "int32": 8 * 63},
        F * 512,
        I64 * 8,
        "truths do not change by a small step",
    ),
    "neighbours within a radius: no root": (
        "R(16, 3); R(8, 3)",
        "return torch.linalg.vector_norm(a0[:, None] - a1, dim=-1) < 0.5",
        {"fp32": (128 * 8, 128 * 9)},
        F * 24 * 3,
        128,
        "truths do not change by a small step",
    ),
    "the place of the largest sigmoid, and the largest": (
        "R(8, 64)",
        "s = torch.sigmoid(a0)\nreturn s.argmax(1), s.amax(1)",
        {"fp32": (8 * 63, 2 * 8 * 63 + 2 * 512), "sfu": 8},
        F * 512,
        (I64 + F) * 8,
        "numbers below the largest are not needed",
    ),
    "an exponential that is compared, and kept": (
        "R(64)",
        "e = a0.exp()\nreturn e, e > 2",
        {"sfu": 64, "fp32": 64},
        F * 64,
        F * 64 + 64,
        "truths do not change by a small step",
    ),
    "exponentials of x, 2 x and 4 x: one, and squares": (
        "R(64)",
        "return a0.exp() + (2 * a0).exp() + (a0 / 0.25).exp()",
        {"sfu": 64, "fp32": (4 * 64, 5 * 64)},
        F * 64,
        F * 64,
    ),
    "exponentials before and behind a change in place": (
        "R(64); R(64)",
        "x = a0 + 1\ny = x.exp()\nx.add_(a1)\nreturn y, (2 * x).exp()",
        {"sfu": 2 * 64, "fp32": (2 * 64, 3 * 64)},
        F * 128,
        F * 128,
    ),
    "exponentials of a number times a ramp: of coarse and of fine steps": (
        "R(8, 1)",
        "return (a0 * arange(256, d=f32)).exp()",
        {"sfu": 8 * 2 * 16, "fp32": (0, 2 * 8 * 256)},
        F * 8,
        F * 8 * 256,
    ),
    "a softmax of copies: nothing of them": (
        "R(16)",
        "return a0.expand(4, 16).softmax(0)",
        {},
        0,
        F * 64,
    ),
    "a connectionist loss: the classes of the labels, and the blank": (
        "R(8, 2, 32).log_softmax(2); tensor([[1, 2, 3], [4, 5, 6]])",
        "return F.ctc_loss(a0, a1, (8, 8), (3, 3), reduction='sum')",
        {"fp32": (2 * 3 * 6, 2 * 3 * 7 * 8 + 2)},
        F * 8 * 2 * 4 + I64 * 6,
        F,
        "the first and the last steps see few labels",
    ),
    # ------------------------------------------------------------- pairs within one set
    "energies of pairs within one set: each pair once": (
        "R(16, 3)",
        "r = (a0[:, None] - a0).square().sum(-1)\nr.fill_diagonal_(1.0)\nreturn (1 / r).sum()",
        {"fp32": (120 * 8 + 119, 136 * 10), "sfu": (120, 136)},
        F * 48,
        F,
    ),
    "energies of pairs with weights of their own": (
        "R(16, 3); R(16, 16)",
        "return (-(a0[:, None] - a0).square().sum(-1) * a1).exp().sum()",
        {"fp32": (120 * 8 + 2 * 256 - 1, 136 * 8 + 3 * 256), "sfu": 256},
        F * (48 + 256),
        F,
        "the diagonal needs no weights",
    ),
    "functions of differences within one set, summed for each: their sign changes": (
        "R(16)",
        "return torch.tanh(a0[:, None] - a0).sum(1)",
        {"fp32": (120 + 16 * 15, 136 + 16 * 15), "sfu": (120, 136)},
        F * 16,
        F * 16,
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
