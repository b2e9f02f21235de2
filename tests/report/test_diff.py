from dataclasses import replace

import pytest

from solkit.core import Verdict
from solkit.report import diff as comparison
from solkit.report import schema
from solkit.report.overview import named


def faster(make, by, **changes):
    """The measured result, `by` times as fast."""
    was = make.measurement()
    times = {n: getattr(was, n) / by for n in ("median_ms", "low_ms", "high_ms")}
    return make.measured(measurement=make.measurement(**times), **changes)


def compared(make, one, other, **changes):
    reports = [schema.to_model(make.report(one)), schema.to_model(make.report(other, **changes))]
    return comparison.compare_reports(named(reports, ["a.json", "b.json"]))


@pytest.mark.parametrize(
    ("by", "judgement"),
    [
        (1.5, "faster"),
        (0.5, "slower"),
        (1.002, "no difference shown"),
        (1.0, "no difference shown"),
    ],
)
def test_faster_only_where_the_intervals_say_so(make, by, judgement):
    (group,) = compared(make, make.measured(), faster(make, by))
    first, second = group.entries
    assert (first.judgement, second.judgement) == ("", judgement)
    assert second.ratio == pytest.approx(1 / by)
    assert first.ratio == 1.0


def test_times_taken_in_other_ways_are_not_compared(make):
    protocol = replace(make.measured().protocol, method="events", name="warm")
    (group,) = compared(make, make.measured(), faster(make, 2, protocol=protocol))
    assert group.entries[1].judgement == "timed differently: cupti cold and events warm"
    (group,) = compared(
        make, make.measured(), make.explained(measurement=None, score=None, gap=None)
    )
    assert group.entries[1].judgement == "one is measured, the other modelled"
    (group,) = compared(make, make.measured(), faster(make, 2, verdict=Verdict.WRONG))
    assert (group.entries[1].ratio, group.entries[1].judgement) == (None, "no time to compare")


def test_what_changed_is_told_and_nothing_else(make):
    launches = (make.kernel(registers=128, waves=7.76, num_warps=4),)
    analysis = replace(make.result().analysis, kernels=launches)
    environment = {"solkit": "0.1.0", "torch": "2.12.0", "triton": "3.7.1", "driver": "580.65"}
    other = faster(make, 2, params={"BLOCK_M": 64}, analysis=analysis)
    (group,) = compared(make, make.measured(), other, environment=environment)
    assert group.entries[1].changes == (
        "parameters: BLOCK_M=128 → BLOCK_M=64",
        "torch: 2.13.0 → 2.12.0",
        "driver: none → 580.65",
        "warps: 8 → 4",
        "registers: 168 → 128",
        "waves: 3.88 → 7.76",
    )
    (group,) = compared(make, make.measured(), make.measured())
    assert group.entries[1].changes == ()


def test_other_launches_are_named(make):
    launches = (make.kernel(name="first"), make.kernel(name="second"))
    other = make.measured(analysis=replace(make.result().analysis, kernels=launches))
    (group,) = compared(make, make.measured(), other)
    assert group.entries[1].changes == ("launches: matmul_kernel → first, second",)


def test_only_shapes_in_common(make):
    other = make.measured(shape={"M": 1})
    assert compared(make, make.measured(), other) == []


def test_other_kernels_are_compared_only_where_they_do_the_same_work(make):
    one = make.report()
    candidate = replace(one.kernel.candidate, path="other.py")
    kernel = replace(one.kernel, candidate=candidate)
    same = replace(one, kernel=kernel)
    less = make.report(make.measured(work=make.work(dram_read_bytes=1)), kernel=kernel)
    models = [schema.to_model(item) for item in (one, same, less)]
    assert len(comparison.compare_reports(named([models[0], models[1]]))) == 1
    assert comparison.compare_reports(named([models[0], models[2]])) == []
    (group,) = comparison.compare_reports(named(models))
    assert [entry.name for entry in group.entries] == ["matmul", "other (other.py)"]


def test_the_lines_that_changed(make, tmp_path):
    path = tmp_path / "k.py"
    report = make.report()
    kernel = replace(report.kernel, candidate=replace(report.kernel.candidate, path=str(path)))
    models = []
    for text in ("a = 1\nb = 2\n", "a = 1\nb = 3\n"):
        path.write_text(text)
        models.append(schema.to_model(replace(report, kernel=kernel)))
    diff = comparison.source_diff(*models).splitlines()
    assert diff[2:] == ["@@ -1,2 +1,2 @@", " a = 1", "-b = 2", "+b = 3"]
    assert comparison.source_diff(models[0], models[0]) == ""
    (group,) = comparison.compare_reports(named(models))
    assert group.entries[1].changes == ("source: see the lines that changed",)
    unknown = models[1].model_copy(update={"sources": []})
    assert comparison.source_diff(models[0], unknown) == ""
