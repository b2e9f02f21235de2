"""Views, expand, transposes, strided access, constants and dead results."""

from __future__ import annotations

import pytest

F = 4  # bytes of a float32
N = 64 * 32
X = "R(64, 32)"

PROBLEMS = {
    "a slice of a product by a number": (
        X,
        "return (a0 * 2)[:, :8].contiguous()",
        {"fp32": 64 * 8},
        F * 64 * 8,
        F * 64 * 8,
    ),
    "rows of a product": (
        f"{X}; R(32, 48)",
        "return (a0 @ a1)[:8].contiguous()",
        {"contraction.fp32": 2 * 8 * 32 * 48},
        F * (8 * 32 + 32 * 48),
        F * 8 * 48,
    ),
    "columns of a product": (
        f"{X}; R(32, 48)",
        "return (a0 @ a1)[:, :8].relu()",
        {"contraction.fp32": 2 * 64 * 32 * 8, "fp32": 64 * 8},
        F * (N + 32 * 8),
        F * 64 * 8,
    ),
    "the logits of the last token": (
        "R(4, 64, 32); R(100, 32)",
        "return F.linear(a0, a1)[:, -1].clone()",
        {"contraction.fp32": 2 * 4 * 32 * 100},
        F * (4 * 32 + 100 * 32),
        F * 4 * 100,
    ),
    "one row of exponentials, summed": (
        X,
        "y = a0.exp()\nreturn y[0].sum()",
        {"sfu": 32, "fp32": 31},
        F * 32,
        F,
    ),
    "the diagonal of an elementwise result": (
        "R(64, 64)",
        "return (a0 * 2).diagonal().clone()",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "the diagonal of a product: 64 dot products": (
        "R(64, 32); R(32, 64)",
        "return (a0 @ a1).diagonal().clone()",
        {"contraction.fp32": 2 * 64 * 32},
        F * 2 * N,
        F * 64,
    ),
    "the trace of a product": (
        "R(64, 32); R(32, 64)",
        "return (a0 @ a1).trace()",
        {"contraction.fp32": 2 * 64 * 32, "fp32": (0, 64)},
        F * 2 * N,
        F,
    ),
    "two halves of one storage": (
        "R(64, 64)",
        "return a0[:32].t() @ a0[32:]",
        {"contraction.fp32": 2 * 64 * 64 * 32},
        F * 64 * 64,
        F * 64 * 64,
    ),
    "an expanded result is written once": (
        "R(64, 1)",
        "return (a0 * 2).expand(64, 100)",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "expanded rows give one product": (
        "R(1, 32); R(32, 16)",
        "return a0.expand(64, 32) @ a1",
        {"contraction.fp32": 2 * 32 * 16},
        F * (32 + 32 * 16),
        F * 64 * 16,
    ),
    "bytes seen as integers": (
        "zeros(64, 32, d=i8)",
        "return a0.view(torch.int32) + 1",
        {"int32": 64 * 8},
        64 * 32,
        64 * 32,
        "perturbs elements, not bytes of other widths",
    ),
    "some of the bytes seen as shorts": (
        "zeros(64, 32, d=i8)",
        "return a0.view(torch.int16)[:, :4] + 1",
        {"int32": 64 * 4},
        64 * 8,
        64 * 8,
        "perturbs elements, not bytes of other widths",
    ),
    "the real part": (
        "R(16, 8, d=torch.complex64)",
        "return a0.real * 2",
        {"fp32": 16 * 8},
        F * 16 * 8,
        F * 16 * 8,
    ),
    "view_as_real": (
        "R(16, 8, d=torch.complex64)",
        "return torch.view_as_real(a0)[..., 0] * 2",
        {"fp32": 16 * 8},
        F * 16 * 8,
        F * 16 * 8,
    ),
    "a complex product: 4 products, 2 sums": (
        "R(16, 8, d=torch.complex64); R(16, 8, d=torch.complex64)",
        "return a0 * a1",
        {"fp32": (5 * 16 * 8, 6 * 16 * 8)},  # three products and five sums otherwise: 8; or 6
        2 * 8 * 16 * 8,
        8 * 16 * 8,
    ),
    "a window of 8 at each of 57 places, summed": (
        "R(4, 64)",
        "return a0.unfold(1, 8, 1).sum(-1)",
        # a window of 8 by doubling: 3 sums a result; a running sum takes 2
        {"fp32": (4 * 57, 4 * 57 * 3)},
        F * 4 * 64,
        F * 4 * 57,
    ),
    "the largest of a window of 8 in front of each place": (
        "R(4, 64)",
        "return F.pad(a0, (7, 0), value=float('-inf')).unfold(1, 8, 1).amax(-1)",
        {"fp32": (4 * 63, 4 * 64 * 3)},  # van Herk's takes 3 a result
        F * 4 * 64,
        F * 4 * 64,
    ),
    "overlapping windows: 9*5 + 10 elements": (
        "R(100)",
        "return torch.as_strided(a0, (10, 10), (5, 1)) * 2",
        {"fp32": 55},  # each distinct element once; repeats copy it
        F * 55,
        F * 100,
    ),
    "strided in two dimensions": (
        "R(8, 16, 16)",
        "return a0[:, ::2, ::2] * 2",
        {"fp32": 8 * 64},
        F * 8 * 64,
        F * 8 * 64,
    ),
    "one of two chunks": (
        X,
        "left, right = a0.chunk(2, 1)\nreturn left * 2",
        {"fp32": N // 2},
        F * N // 2,
        F * N // 2,
    ),
    "four rows of a flipped one": (
        X,
        "return a0.flip(0)[:4].clone()",
        {},
        F * 4 * 32,
        F * 4 * 32,
    ),
    "four rows of a rolled one": (
        X,
        "return a0.roll(1, 0)[:4].clone()",
        {},
        F * 4 * 32,
        F * 4 * 32,
    ),
    "a transposing copy": ("R(64, 32)", "return a0.t().contiguous()", {}, F * N, F * N),
    "a permuted slice": (
        "R(4, 8, 16)",
        "return a0.permute(2, 0, 1)[:3, :, ::2] + 1",
        {"fp32": 3 * 4 * 4},
        F * 3 * 4 * 4,
        F * 3 * 4 * 4,
    ),
    "two outputs, one a view of the input": (
        X,
        "return a0[:4], a0 * 2",
        {"fp32": N},
        F * N,
        F * N,
    ),
    "an unused input, a dead product": (
        "R(64); R(64); R(32, 32)",
        "dead = a2 @ a2\nreturn a1 * 2",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "a constant result": (X, "return torch.full_like(a0, 3.0)", {}, 0, F * N),
    "a number added as a tensor of constants": (
        "R(64)",
        "return a0 + torch.full((64,), 2.0, device='cuda')",
        {"fp32": 64},
        F * 64,
        F * 64,
    ),
    "times zero": (
        X,
        "return torch.zeros_like(a0) * a0",
        {"fp32": (0, N)},  # NaN and infinities would pass
        (0, F * N),
        F * N,
    ),
    "the identity times a matrix": (
        X,
        "return torch.eye(64, device='cuda') @ a0",
        {"contraction.fp32": (0, 2 * N)},
        F * N,
        F * N,
    ),
    "a constant table of sines, added": (
        X,
        "p = arange(64).double()[:, None] * arange(32)\nreturn a0 + p.sin().to(a0.dtype)",
        {"fp32": N, "fp64": (0, N), "sfu": (0, N), "int32": (0, N)},
        F * N,
        F * N,
    ),
    "random numbers like an input": ("R(64)", "return torch.rand_like(a0)", {}, 0, F * 64),
    "two branches, one dead": (
        "R(64); R(64)",
        "return torch.where(torch.ones(64, dtype=torch.bool, device='cuda'), a0, a1)",
        {},
        F * 64,
        F * 64,
    ),
    "a conversion there and on": (
        "R(64, d=bf16)",
        "return a0.float().double() * 2",
        {"fp64": 64},
        2 * 64,
        8 * 64,
    ),
    "the same exponential twice": (
        X,
        "return a0.exp() * 2, a0.exp() + 1",
        {"sfu": N, "fp32": 2 * N},
        F * N,
        2 * F * N,
    ),
    "relu of relu": ("R(64)", "return a0.relu().relu()", {"fp32": (64, 128)}, F * 64, F * 64),
    "an outer sum of a row and a column": (
        "R(64, 1); R(1, 32)",
        "return a0 + a1",
        {"fp32": N},
        F * 96,
        F * N,
    ),
    "huge: strided rows and columns of 8 GiB": (
        "R(65536, 65536, d=bf16)",
        "return a0[::2, ::2].sum()",
        {"fp32": 32768**2 - 1},
        2 * 32768**2,
        2,
        "too large to run",
    ),
    "huge: two overlapping slices are their union": (
        "R(65536, 65536, d=bf16)",
        "return a0[:, :40000].sum() + a0[:, 20000:60000].sum()",
        {"fp32": 65536 * 60000},  # three parts, 3 less; each sum of two, and both: 3
        2 * 65536 * 60000,
        2,
        "too large to run",
    ),
    "nothing at all": ("R(0, 32); R(32, 8)", "return a0 @ a1", {}, 0, 0),
    "a sum over nothing": ("R(4, 0)", "return a0.sum(1)", {}, 0, F * 4),
    "an inner dimension of nothing": ("R(8, 0); R(0, 8)", "return a0 @ a1", {}, 0, F * 64),
    "two dtypes meet": (
        "R(64, d=bf16); R(64)",
        "return a0 + a1",
        {"fp32": 64},
        2 * 64 + F * 64,
        F * 64,
    ),
    "a tensor of one number": (
        "R(64); torch.tensor(2.0, device=DEV)",
        "return a0 * a1",
        {"fp32": 64},
        F * 65,
        F * 64,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
