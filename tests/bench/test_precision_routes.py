"""The routes that a bound rests on pass the referee, and what is cheaper does not."""

from __future__ import annotations

import precision_routes as bench
import pytest
import torch

from solkit.core import Tolerance
from solkit.roofline.precision_routes import Route, Rule

SIZE, INNER = 24, 64


@pytest.fixture(scope="module")
def randn():
    return next(bench.settings(SIZE, [INNER]))


@pytest.mark.slow
def test_the_referee_accepts_the_routes_of_the_rule(randn):
    for _, route, failures, share in bench.verdicts(randn, seed=3):
        assert not failures, route
        assert share <= 1


@pytest.mark.parametrize(
    ("tolerance", "cheaper"),
    [
        (None, Route("tensor.fp16", 1)),
        (Tolerance(9e-4, 9e-4), Route("tensor.fp16", 1)),
        (Tolerance(1e-3, 1e-3), Route("tensor.bf16", 1)),
    ],
)
def test_it_rejects_what_is_cheaper(randn, monkeypatch, tolerance, cheaper):
    monkeypatch.setattr(bench, "TOLERANCES", (tolerance,))
    monkeypatch.setattr(Rule, "_route", lambda *_: cheaper)
    ((*_, failures, share),) = bench.verdicts(randn, seed=3)
    assert failures
    assert share > 1


def test_tensor_cores_cut_off_what_does_not_fit_the_largest_term():
    # as measured on an H200: beside a 1, eight terms of 2^-25 are kept and of 2^-26 are not
    for exponent, kept in ((25, 8), (26, 0)):
        a, b = torch.zeros(1, 32), torch.zeros(32, 1)
        a[0, 0] = b[0, 0] = 1
        a[0, 16:24], b[16:24, 0] = 2.0**-13, 2.0 ** (13 - exponent)
        assert bench.summed_by_tensor_cores(a, b).item() == 1 + kept * 2.0**-exponent


@pytest.mark.parametrize(("dtype", "roundoffs"), [(torch.bfloat16, -11.9), (torch.float16, -42.6)])
def test_sums_of_one_sign_come_out_too_small(dtype, roundoffs):
    torch.manual_seed(0)
    a, b = torch.rand(32, 512).to(dtype), torch.rand(512, 32).to(dtype)
    exact = a.double() @ b.double()
    bias = ((bench.summed_by_tensor_cores(a, b).double() - exact) / exact).mean() / 2.0**-24
    assert bias.item() == pytest.approx(roundoffs, rel=0.2)  # as measured on an H200
