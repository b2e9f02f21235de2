import math
from dataclasses import replace

import pytest

from solkit.core import Ceiling, GapFactor, Resource
from solkit.report import charts, schema

FLOPS, DRAM_BYTES = 2 * 4096**3, 3 * 2 * 4096**2


def roofline(make, *results, **device):
    return charts.roofline_of(
        schema.to_model(
            make.report(*(results or (make.explained(),)), device=make.device(**device))
        )
    )


def test_points_lie_where_the_definition_says(make):
    points = {point.kind: point for point in roofline(make).points}
    assert set(points) == {"SOL", "modelled", "measured"}
    for kind, time_s in (("SOL", 0.12839e-3), ("modelled", 0.168e-3), ("measured", 0.1926e-3)):
        assert points[kind].intensity == pytest.approx(FLOPS / DRAM_BYTES)
        assert points[kind].rate == pytest.approx(FLOPS / time_s)
        assert points[kind].pipe == "tensor.bf16"


def test_at_the_speed_of_light_a_point_touches_its_roof(make):
    chart = roofline(make)
    (roof,) = (r for r in chart.roofs if r.name == "tensor.bf16" and r.rates == "roofline")
    (sol,) = (point for point in chart.points if point.kind == "SOL")
    assert sol.rate == pytest.approx(roof.value, rel=1e-4)


def test_every_ceiling_is_there_in_every_set_of_rates(make):
    fp32 = Ceiling(66.9e12, "FLOP/s", 1980, "whitepaper")
    dram = Ceiling(3.1e12, "B/s", 2619, "calibrated")
    ceilings = {**make.device().ceilings, "fp32": fp32, "issue": fp32}
    chart = roofline(make, ceilings=ceilings, calibrated={"dram": dram})
    assert {(roof.rates, roof.name, roof.used) for roof in chart.roofs} == {
        ("roofline", "dram", True),
        ("roofline", "tensor.bf16", True),
        ("roofline", "fp32", False),
        ("datasheet", "dram", True),
        ("datasheet", "tensor.bf16", True),
        ("calibrated", "dram", True),
    }


def test_passes_lower_a_roof(make):
    tf32 = Ceiling(495e12, "FLOP/s", 1980, "whitepaper")
    resource = Resource("tensor.tf32", FLOPS, "FLOP", 165e12, "three passes", 0.83)
    result = make.result(bound=make.bound(resources=(resource,), limiter="tensor.tf32"))
    chart = roofline(make, result, ceilings={"tensor.tf32": tf32}, datasheet={})
    assert [(roof.name, roof.value) for roof in chart.roofs] == [("tensor.tf32 / 3", 165e12)]


def test_a_report_without_ceilings_has_those_of_its_bound(make):
    report = schema.to_model(make.report())
    bare = report.device.model_copy(update={"ceilings": {}, "datasheet": {}, "calibrated": {}})
    chart = charts.roofline_of(report.model_copy(update={"device": bare}))
    assert {(roof.name, roof.value) for roof in chart.roofs} == {
        ("tensor.bf16", 1070.5e12),
        ("dram", 3.352e12),
    }


def test_what_computes_nothing_is_left_out(make):
    copy = make.result(bound=make.bound(resources=make.bound().resources[1:]), shape={"N": 3})
    chart = roofline(make, make.result(), copy)
    assert {point.shape for point in chart.points} == {"M=4096 N=4096 K=4096 dtype=bfloat16"}
    assert chart.left_out == ("N=3",)
    assert roofline(make, copy).points == ()


def test_roofs_meet_at_the_ridge(make):
    chart = roofline(make)
    low, high = charts.intensities(chart)
    ends = {r.name: charts.span(r, chart, low, high) for r in chart.roofs if r.rates == "roofline"}
    ridge = 1070.5e12 / 3.352e12
    assert ends["dram"][0] == (low, pytest.approx(ridge))
    assert ends["dram"][1] == (pytest.approx(3.352e12 * low), pytest.approx(1070.5e12))
    assert ends["tensor.bf16"] == ((pytest.approx(ridge), high), (1070.5e12, 1070.5e12))
    assert low < min(ridge, FLOPS / DRAM_BYTES)
    assert high > max(ridge, FLOPS / DRAM_BYTES)


def test_steps_of_a_gap_lie_end_to_end(make):
    gap = charts.gap_of(schema.to_model(make.report(make.explained())).results[0])
    assert gap.steps[0].start == 1.0
    for before, after in zip(gap.steps, gap.steps[1:]):
        assert after.start == before.end
    assert gap.steps[-1].end == pytest.approx(1.5)
    assert [step.end / step.start for step in gap.steps] == pytest.approx(
        [factor.factor for factor in make.gap().factors]
    )
    assert math.fsum(step.cost_ms for step in gap.steps) == pytest.approx(0.5 * 0.12839)


def test_factors_that_round_to_one_are_no_steps(make):
    gap = make.gap()
    quiet = replace(gap, factors=(*gap.factors, GapFactor("launch", 1.004, "1 launch")))
    result = replace(make.explained(), gap=quiet)
    steps = charts.gap_of(schema.to_model(make.report(result)).results[0]).steps
    assert [step.name for step in steps] == [factor.name for factor in gap.factors]


def test_no_gap_no_steps(make):
    assert charts.gap_of(schema.to_model(make.report()).results[0]) is None


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.97, 2.1, [1, 1.2, 1.5, 2]),
        (0.9, 60, [1, 2, 5, 10, 20, 50]),
        (3, 2e5, [10, 100, 1e3, 1e4, 1e5]),
    ],
)
def test_ticks(low, high, ticks):
    assert charts.log_ticks(low, high) == ticks
