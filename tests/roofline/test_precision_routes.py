"""Routes of products: the fastest whose error the referee accepts."""

from __future__ import annotations

import pytest

from solkit.core import Tolerance, Work
from solkit.core.rounding import admitted_error, computing_share
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.precision_routes import Rule

H100, B200, V100 = (devices.find(name) for name in ("h100", "b200", "v100"))
HALF, TF32 = 1e3 / 1070.5e12, 1e3 / 535.2e12  # ms an operation on an H100's tensor cores
N = 10**12
SLICES = "int8 in 36 passes (slices of int8, by the literature)"


def route(kind, tolerance=None, device=H100):
    limit = None if tolerance is None else Tolerance(tolerance, tolerance)
    route = Rule("tolerance", limit).routes([f"contraction.{kind}"], device)[kind]
    return route.pipe.removeprefix("tensor."), route.passes


def bounded(operations, device=H100, tolerance=None, **options):
    work = Work(operations, {}, 0, 0, 0, 0)
    return bound(work, device, tolerance=tolerance, **options)


@pytest.mark.parametrize(
    ("kind", "tolerance", "pipe", "passes"),
    [
        # both factors round: 3.6 u is 2^-9.2 for 11 bits, 2^-6.2 for 8; allowed are 4 times the
        # roundoff of tf32 (2^-9) from 1e-3 on, of bf16 (2^-6) from 1e-2 on, and else 2^-15
        ("fp32", None, "fp16", 3),
        ("fp32", 9e-4, "fp16", 3),
        ("fp32", 1e-3, "fp16", 1),
        ("fp32", 9e-3, "fp16", 1),
        ("fp32", 1e-2, "bf16", 1),
        # the other factor is exact: one is split
        ("fp32*half", None, "bf16", 2),
        ("fp32*half", 1e-3, "fp16", 1),
        # results of bf16 allow 2^-7: 11 bits do, 8 do not
        ("fp32~half", None, "fp16", 1),
        # no tolerance makes up for what an exponential makes of an error
        ("fp32>exp", 1e-2, "fp16", 3),
        ("fp32*half>exp", 1e-2, "bf16", 2),
    ],
)
def test_the_cheapest_route_within_what_the_referee_allows(kind, tolerance, pipe, passes):
    assert route(kind, tolerance) == (pipe, passes)


@pytest.mark.parametrize(
    ("limit", "mean", "deviation", "error"),
    [
        # 2.576 deviations hold 99 % of normal errors, 2.326 hold 98 %, 6 hold all of 2^28
        (Tolerance(0.0, 0.1, matched=0.99), 0.0, 1.0, 0.1 / 2.576),
        (Tolerance(0.0, 0.1, matched=0.98), 0.0, 1.0, 0.1 / 2.326),
        (Tolerance(0.0, 0.1), 0.0, 1.0, 0.1 / 6),
        # zeros must not pass: a quarter of the size is the most
        (Tolerance(0.0, 9.0, matched=0.98), 0.0, 1.0, 0.25 / 2.326),
        # relative to outputs far from zero
        (Tolerance(0.1, 0.0, matched=0.98), 100.0, 1e-3, 10 / 2.326),
        # around zero the quotient of two normal numbers is Cauchy's: 2 % are above 31.8 times
        (Tolerance(0.1, 0.0, matched=0.98), 0.0, 1.0, 0.1 / 31.8),
        (Tolerance(0.0, 0.0), 0.0, 1.0, 0.0),
    ],
)
def test_the_errors_of_which_a_tolerance_admits_enough(limit, mean, deviation, error):
    assert admitted_error(limit, mean, deviation) == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "taken"), [("fp32@9", ("fp16", 1)), ("fp32@6", ("bf16", 1)), ("fp32", ("fp16", 3))]
)
def test_errors_that_the_size_of_the_results_admits(kind, taken):
    assert route(kind) == taken


def test_the_routes_that_were_considered():
    results = {one.route: one for one in bounded({"contraction.fp32@9": N}).routes}
    assert [name for name, one in results.items() if one.is_taken] == [
        "fp16 (scaled by powers of two)"
    ]
    assert [name for name, one in results.items() if one.is_strict] == ["tf32 in 3 passes"]
    assert not results["bf16"].is_accepted  # 3.6 / 2^8 is over 2^-9
    assert results["bf16"].error == pytest.approx(3.6 / 2**8)
    assert results["fp32"].is_accepted
    assert results["fp32"].error is None
    assert {one.allowed for one in results.values()} == {2.0**-9}
    assert bounded({"contraction.bf16": N}).routes == ()
    assert bounded({"contraction.fp32": N}, precision="tf32").routes == ()


def test_a_gpu_without_bf16_takes_fp16():
    assert route("fp32", 1e-2, V100) == ("fp16", 1)
    assert route("fp32*half", None, V100) == ("fp16", 2)


def test_three_passes_lose_where_fp32_is_as_fast():
    assert route("fp32", None, devices.find("rtx-4090")) == ("fp32", 1)


def test_fp64_takes_narrow_factors_only_where_the_files_tolerance_admits_their_errors():
    assert route("fp64@9") == ("fp16", 1)
    assert route("fp64@6") == ("bf16", 1)
    assert route("fp64", 1e-2) == ("fp64", 1)  # what is known of the results decides, not rtol
    strict = Rule("tolerance", None, strict=True).routes(["contraction.fp64@9"], H100)
    assert strict["fp64@9"].pipe == "tensor.fp64"
    ways = Rule("tolerance", None).considered(["contraction.fp64"], H100)
    assert {way.allowed for way in ways} == {1e-7}  # of doubles, not of fp32
    assert [way.route for way in ways if way.is_accepted] == ["fp64", SLICES]
    assert not any(way.is_strict for way in ways)


def test_fp64_is_sliced_only_where_the_integer_pipe_is_36_times_as_fast():
    assert route("fp64", None, B200) == ("int8", 36)
    assert route("fp64") == ("fp64", 1)
    assert "literature" in bounded({"contraction.fp64": N}, B200).precision


def test_kinds_on_one_pipe_add_their_passes():
    result = bounded({"contraction.bf16": N, "contraction.fp32*half": 3 * N})
    assert result.flops_by_pipe == {"tensor.bf16": 4 * N}
    assert result.time_ms == pytest.approx((1 + 3 * 2) * N * HALF, rel=1e-3)


def test_the_strict_price_is_three_tf32_passes():
    result = bounded({"contraction.fp32": N})
    assert result.at.strict_ms == pytest.approx(3 * N * TF32, rel=1e-3)
    assert bounded({"contraction.bf16": N}).at.strict_ms is None
    assert bounded({"contraction.fp32": N}, precision="tf32").at.strict_ms is None


def test_the_route_is_named():
    said = bounded({"contraction.fp32": N}).precision
    assert said == "tolerance: fp32 as fp16 in 3 passes (scaled by powers of two)"


@pytest.mark.parametrize("roundoff", [2.0**-8, 2.0**-11])
def test_a_tolerance_concerns_fp32_results_alone(roundoff):
    assert computing_share(roundoff, Tolerance(1e-2, 1e-2)) == 2 * roundoff
    assert computing_share(2.0**-24, Tolerance(1e-2, 1e-2)) == 4 * 2.0**-8
