from dataclasses import replace

import pytest

from solkit.core import KernelModel, Term, Verdict
from solkit.report import overview, schema


def modelled(make, time_ms, **kernel):
    """A result that was not measured, whose one launch has a model."""
    model = KernelModel(time_ms, (Term("dram", time_ms, "bytes"),))
    analysis = replace(make.result().analysis, kernels=(make.kernel(model=model, **kernel),))
    return make.result(analysis=analysis)


def only(report):
    return schema.to_model(report).results[0]


def named_like(make, name, *results):
    report = make.report(*results)
    candidate = replace(report.kernel.candidate, path=f"{name}.py")
    return schema.to_model(replace(report, kernel=replace(report.kernel, candidate=candidate)))


def test_a_measured_time_goes_before_a_modelled_one(make):
    time = overview.time_of(only(make.report(make.explained())))
    assert time == overview.Time(0.1926, 0.1919, 0.1933, measured=True)
    assert overview.modelled_ms(only(make.report(make.explained()))) == 0.168


def test_a_modelled_time_is_of_all_launches(make):
    result = only(make.report(modelled(make, 0.05, count=3)))
    assert overview.time_of(result) == overview.Time(*[pytest.approx(0.15)] * 3, measured=False)


def test_no_model_goes_under_the_hard_bound(make):
    hard_ms = make.bound().at.hard_ms
    result = only(make.report(modelled(make, hard_ms / 2)))
    assert overview.modelled_ms(result) == hard_ms


def test_no_time_without_a_model_of_every_launch(make):
    known_value = modelled(make, 0.05)
    both = (*known_value.analysis.kernels, make.kernel())
    result = replace(known_value, analysis=replace(known_value.analysis, kernels=both))
    assert overview.time_of(only(make.report(result))) is None


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.CHEATING, Verdict.IMPOSSIBLE])
def test_what_failed_has_no_time(make, verdict):
    assert overview.time_of(only(make.report(make.explained(verdict=verdict)))) is None


def test_cost_is_time_times_the_share_that_is_gap(make):
    place = overview.standing(schema.to_model(make.report(make.measured(), make.result())))
    time_ms, sol_ms = 0.1926, 0.12839
    assert place.shapes == 1
    assert place.cost_ms == pytest.approx(time_ms * (1 - sol_ms / time_ms))
    assert place.gap == pytest.approx(time_ms / sol_ms)
    assert overview.standing(schema.to_model(make.report(make.result()))) is None


def test_the_costliest_comes_first_not_the_one_with_the_largest_gap(make):
    quick = make.bound(time_ms=0.001)
    small = make.measured(bound=quick, measurement=make.measurement(median_ms=0.01))  # gap 10
    reports = overview.named(
        [
            named_like(make, "unmeasured", make.result()),
            named_like(make, "small", small),
            named_like(make, "large", make.measured()),
        ]
    )
    order = [item.name for item, _ in overview.worst_first(reports)]
    assert order == ["large", "small", "unmeasured"]


def test_the_worst_shape(make):
    far = make.measured(measurement=make.measurement(median_ms=0.9), params={"which": "far"})
    wrong = make.measured(verdict=Verdict.WRONG, params={"which": "wrong"})
    results = schema.to_model(make.report(make.measured(), far, wrong)).results
    assert overview.worst(results[:2]).params == {"which": "far"}
    assert overview.worst(results).params == {"which": "wrong"}


def test_names_of_files():
    assert overview.file_name("../a b/c$.json") == "a-b-c-.json"
    assert overview.file_name("µ_1") == "µ_1"
    assert overview.file_name("..") == "kernel"


def test_names_tell_reports_apart(make):
    one, other = named_like(make, "one"), named_like(make, "other")
    assert [n.name for n in overview.named([one, other])] == ["one", "other"]
    files = ["before.json", "after.json"]
    names = [n.name for n in overview.named([one, one], files)]
    assert names == ["one (before.json)", "one (after.json)"]
    assert len({n.name for n in overview.named([one, one, one])}) == 3
