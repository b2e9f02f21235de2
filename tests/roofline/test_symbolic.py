"""Formulas of problems whose counts are known by hand, and what is refused."""

from __future__ import annotations

import functools
import math

import pytest
import sympy

from solkit import pipeline
from solkit.errors import InputError
from solkit.roofline.symbolic import explained_formulas

M, N, K = sympy.symbols("M N K", integer=True, positive=True)


@pytest.fixture(scope="module")
def formulas(tmp_path_factory):
    """Formula and origin by amount, of a problem given as its two functions' text."""
    path = tmp_path_factory.mktemp("formulas") / "problem.py"

    @functools.cache
    def find(body, *names):
        path.write_text("import torch\n" + body, encoding="utf-8")
        result = pipeline.symbolic_bound(str(path), names, "h100")
        known_values = {str(s): s for s in (M, N, K)}
        return {
            f.amount: (sympy.sympify(f.expression, locals=known_values), f.origin)
            for f in result.work.formulas
        }, result

    return find


MATMUL = """
def inputs(M=64, N=32, K=16, device="cuda"):
    return (torch.randn(M, K, dtype=torch.bfloat16, device=device),
            torch.randn(K, N, dtype=torch.bfloat16, device=device))
def reference(a, b):
    return a @ b
"""


@pytest.mark.slow
def test_a_product_is_traced(formulas):
    amounts, result = formulas(MATMUL, "M", "N", "K")
    expected = {"contraction.bf16": 2 * M * N * K, "dram read": 2 * K * (M + N)}
    expected["dram written"] = 2 * M * N
    assert amounts.keys() == expected.keys()
    for amount, (expression, origin) in amounts.items():
        assert sympy.expand(expression - expected[amount]) == 0
        assert origin == "traced"
    assert result.complete


def test_the_time_evaluates_to_the_numeric_bound_elsewhere(formulas, write):
    _, result = formulas(MATMUL, "M", "N", "K")
    sizes = {"M": 1000, "N": 3000, "K": 500}
    seconds = eval(result.time_s, {"Max": max, **sizes})
    numeric = pipeline.bound(write(MATMUL), "h100", shape=sizes).time_ms
    assert 1e3 * seconds == pytest.approx(numeric, rel=1e-4)


@pytest.mark.slow
def test_sizes_that_are_not_named_stay_numbers(formulas):
    amounts, result = formulas(MATMUL, "M")
    assert sympy.expand(amounts["dram read"][0] - 2 * 16 * (M + 32)) == 0
    assert result.work.fixed == {"N": 32, "K": 16}


@pytest.mark.slow
def test_a_triangle_is_fitted(formulas):
    body = """
def inputs(N=64, K=16, device="cuda"):
    return torch.randn(N, N, device=device), torch.randn(N, K, device=device)
def reference(a, b):
    return torch.tril(a) @ b
"""
    amounts, _ = formulas(body, "N", "K")
    product, origin = amounts["contraction.fp32"]
    assert origin == "fitted"
    assert sympy.expand(product - 2 * K * N * (N + 1) / 2) == 0
    assert sympy.expand(amounts["dram read"][0] - 4 * (N * (N + 1) / 2 + N * K)) == 0


@pytest.mark.slow
def test_an_unknown_name_is_answered_with_the_sizes(write):
    with pytest.raises(InputError, match=r"'Q' cannot be a symbol; .*M, N, K"):
        pipeline.symbolic_bound(write(MATMUL), ["M", "Q"], "h100")


def test_what_is_no_polynomial_is_refused_and_the_rest_a_lower_bound():
    def count(point):
        return {"fp32": math.isqrt(point["M"]), "sfu": 3 * point["M"]}

    result, points = explained_formulas({"M": 4096}, count, {"sfu": 3 * M}, "")
    refused, kept = result
    assert (refused.amount, refused.origin, refused.expression) == ("fp32", "refused", "")
    assert "no polynomial" in refused.reason
    assert (kept.expression, kept.origin) == ("3*M", "traced")
    assert len(points) == 4


def test_a_traced_formula_that_is_wrong_elsewhere_is_not_kept():
    def count(point):
        return {"fp32": point["M"] ** 2}

    (result,), _ = explained_formulas({"M": 64}, count, {"fp32": 64 * M}, "")
    assert (result.expression, result.origin) == ("M**2", "fitted")


def test_sizes_that_the_program_rejects_are_passed_over():
    def count(point):
        if point["M"] % 8:
            raise InputError("M must be a multiple of 8")
        return {"fp32": point["M"] // 8}

    (result,), points = explained_formulas({"M": 64}, count, {}, "")
    assert result.expression == "M/8"
    assert all(point["M"] % 8 == 0 for point in points)


def test_a_formula_is_checked_where_it_was_not_fitted():
    requests = []

    def count(point):
        requests.append(point["M"])
        # 3M at the sizes that a polynomial is fitted to, more elsewhere
        off = math.prod(point["M"] - n for n in (64, 56, 48, 40, 32))
        return {"fp32": 3 * point["M"] + abs(off)}

    (result,), points = explained_formulas({"M": 64}, count, {}, "")
    assert {64, 56, 48, 40, 32} <= set(requests)
    assert {point["M"] for point in points} & {56, 48, 40, 32} == set()
    assert result.origin == "refused"


def test_a_program_with_one_valid_size_is_refused():
    def count(point):
        if point["M"] != 64:
            raise InputError("M must be 64")
        return {"fp32": 1}

    with pytest.raises(InputError, match="too few to check"):
        explained_formulas({"M": 64}, count, {}, "")


def test_a_size_carries_its_formula_through_integer_arithmetic():
    # not above: with it comes torch's compiler, for all that pytest forks
    from solkit.adapters.symbolic_sizes import Size, formula_of

    m, n = Size(6, M), Size(5, N)
    result = math.prod((m, n, 2)) + sum([m, 1]) - 3 * n // 2
    assert result == 6 * 5 * 2 + 7 - 15 // 2
    assert sympy.simplify(formula_of(result) - (2 * M * N + M + 1 - sympy.floor(3 * N / 2))) == 0
    assert type(m / 2) is float
    assert formula_of(7) == 7
