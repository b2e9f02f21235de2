"""The best algorithm through the public functions: its time, its code, and where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import solkit
from solkit.core import Brief, Measurement, Verdict
from solkit.pipeline.best_algorithm import planned_reference, with_best
from solkit.report import bounds
from solkit.tuner.proposers.best_algorithm import BestPlan

H100 = "H100 SXM"
SUM_OF_PRODUCT = """
import torch

def inputs(n=4096, device="cuda"):
    return torch.randn(n, n, device=device), torch.randn(n, n, device=device)

def reference(x, w):
    return (x @ w).sum(1)
"""
MEAN_OF_LAYER = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super(Model, self).__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.layer(x).mean(dim=0))

def get_inputs():
    return [torch.rand(16384, 256)]

def get_init_inputs():
    return [256]
"""
CANCELS = SUM_OF_PRODUCT.replace(
    "(x @ w).sum(1)", "torch.log(x.exp().sum(1)) - x.logsumexp(1)"
)  # 0, whatever x is
SQUARE = SUM_OF_PRODUCT.replace("(x @ w).sum(1)", "torch.relu(x @ w)")


@pytest.fixture
def file(tmp_path):
    """Write a kernel file."""

    def write(text):
        path = tmp_path / "problem.py"
        path.write_text(text)
        return path

    return write


def test_a_sum_of_a_product_needs_each_input_once(file):
    best = solkit.best(file(SUM_OF_PRODUCT), H100)
    read_ms = 1e3 * (2 * 4096 * 4096 + 4096) * 4 / 3.352e12  # both factors and the sums
    assert best.time_ms == pytest.approx(read_ms, rel=1e-3)
    assert best.gain == pytest.approx(best.roofline_ms / read_ms, rel=1e-3)
    assert best.plan == "sum w first"
    assert len(best.checked) == 3
    assert "w.sum(1)" in best.code


def test_a_modules_weights_are_inputs_of_the_plan(file):
    path = file(MEAN_OF_LAYER)
    best = solkit.best(path, H100)
    assert best.places == ("x", "self.layer.weight", "self.layer.bias")
    text = planned_reference(path, "kernelbench", best)
    x = torch.rand(16384, 256)
    models = []
    for source in (MEAN_OF_LAYER, text):
        namespace: dict = {}
        exec(source, namespace)
        torch.manual_seed(0)
        models.append(namespace["Model"](*namespace["get_init_inputs"]()))
    torch.testing.assert_close(models[1](x), models[0](x))


def test_a_problem_without_a_better_order_says_so(file):
    best = solkit.best(file(SQUARE), H100)
    assert best.time_ms == best.roofline_ms
    assert best.code == ""
    assert "no linear part" in best.note


def test_a_search_that_takes_too_long_is_no_plan(file):
    best = solkit.best(file(SUM_OF_PRODUCT), H100, time_limit_s=0.001)
    assert best.note == "no plan: the search took more than 0.001 s"
    assert best.gain == 1.0


def test_a_plan_under_the_hard_bound_lowers_it(file):
    report = with_best(solkit.bounds(file(CANCELS), device=H100))
    (result,) = report.results
    assert result.bound.at.hard_ms <= result.best.time_ms <= result.bound.at.roofline_ms
    assert result.best.gain > 1000
    assert '"drop what cancels"' in bounds.dumps(report)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [(CANCELS, Verdict.BEATS_ALGORITHM), (SUM_OF_PRODUCT, Verdict.IMPOSSIBLE)],
    ids=["the plan is faster", "the plan is slower"],
)
def test_a_time_is_not_impossible_where_a_plan_refutes_the_hard_bound(file, text, verdict):
    report = solkit.bounds(file(text), device=H100)
    (result,) = report.results
    timed = Measurement(*[1e-3] * 5, method="cupti", max_error=0.0, samples=9)  # 1 us
    accused = replace(result, verdict=Verdict.IMPOSSIBLE, measurement=timed)
    assert result.bound.at.hard_ms > timed.median_ms
    (judged,) = with_best(replace(report, results=(accused,))).results
    assert judged.verdict is verdict
    assert (timed.median_ms < judged.bound.at.hard_ms) == (verdict is Verdict.IMPOSSIBLE)


def test_the_plan_joins_the_search_once():
    proposer = BestPlan("first", lambda: ("planned", "sum w first"))
    (proposal,) = proposer.propose(brief_of("first"))
    assert (proposal.source, proposal.intent) == ("planned", "sum w first.")
    assert list(proposer.propose(brief_of("another"))) == []


def brief_of(source):
    fields = dict.fromkeys(Brief.__dataclass_fields__)
    return Brief(**{**fields, "source": source})
