"""Kernels that remember answers gain nothing, and honest kernels stay correct on new inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from solkit.core import Candidate, MeasureSettings, Verdict
from solkit.measure import Session, is_available

HERE = Path(__file__).parent
KERNEL = str(HERE / "remembering" / "on_the_device.py")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not is_available(), reason="no GPU"),
]


@pytest.fixture(scope="module")
def session():
    with Session() as session:
        yield session


def problem(name: str) -> str:
    return str(HERE / "problems" / f"{name}.py")


def measured(session, name, protocol, **params):
    outcome = session.measure(
        KERNEL, {}, params, reference=problem(name), settings=MeasureSettings(protocol=protocol)
    )
    print(params, outcome.verdict, outcome.errors, outcome.measurement)
    return outcome


@pytest.mark.parametrize(
    ("name", "protocol", "params"),
    [
        ("half_product", "cold", {"KEY": "samples"}),
        ("half_product", "cold", {"KEY": "sums"}),
        ("half_product", "warm", {"KEY": "samples"}),
        ("half_product", "cold-graph", {"KEY": "samples"}),
        ("half_product", "cold-graph", {"KEY": "samples", "WHERE": "in graphs"}),
        ("half_product", "warm-graph", {"KEY": "sums", "WHERE": "in graphs"}),
        ("whole_product", "cold", {"KEY": "samples"}),
        ("whole_product", "cold-graph", {"KEY": "sums"}),
    ],
)
def test_answers_kept_on_the_device_gain_nothing(session, name, protocol, params):
    keeping = measured(session, name, protocol, **params, KEEPS=True)
    working = measured(session, name, protocol, **params, KEEPS=False)
    assert keeping.verdict is working.verdict is Verdict.CORRECT
    assert keeping.protocol.timed_inputs == "drawn"
    assert keeping.measurement.median_ms > 0.9 * working.measurement.median_ms


@pytest.mark.parametrize("where", ["everywhere", "in graphs"])
def test_answers_kept_from_call_to_call_of_a_graph_are_found_out(session, where):
    keeping = measured(session, "half_product", "replay", KEEPS=True, WHERE=where)
    assert keeping.verdict is Verdict.CHEATING
    assert "a single call on new inputs" in keeping.errors[0]
    working = measured(session, "half_product", "replay", KEEPS=False, WHERE=where)
    assert working.verdict is Verdict.CORRECT


def test_a_comparison_shows_no_gain_either(session):
    candidates = [Candidate("kernel", KERNEL, {"KEEPS": keeps}) for keeps in (False, True)]
    outcome = session.compare(candidates, {}, reference=problem("half_product"))
    assert outcome.verdict is Verdict.CORRECT, outcome.errors
    working, keeping = (sorted(times)[len(times) // 2] for times in outcome.turns[0].times_ms)
    assert keeping > 0.9 * working
