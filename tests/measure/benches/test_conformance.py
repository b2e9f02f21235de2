"""What every bench does alike: a driver cannot tell which one it has.

The trusted and the guarded bench have a fake GPU; the log, and the recorded bench, are real.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import fakes
import pytest
from fakes import DEVICE, VALID
from recordings import outcome

from solkit.collect import Limits, Workload, collect
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    BoundTimes,
    Candidate,
    Configuration,
    KernelFile,
    Measurement,
    Problem,
    Protocol,
    Result,
    Space,
    Verdict,
    Work,
)
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import RecordedBench
from solkit.measure.benches.guarded import GuardedBench
from solkit.measure.benches.multi_gpu import ManyBench
from solkit.measure.benches.trusted import TrustedBench
from solkit.measure.guarded.messages import Judgement
from solkit.measure.outcomes import PreparedCandidate

SHAPE = {"N": 100}
MANY = ("many trusted", "many guarded", "many recorded")  # of one each
RIGHT = [params for params in VALID if params["SPLIT"] == 1]
WRONG = {**RIGHT[0], "SPLIT": 2, "BLOCK": 32}
BOUND = Bound(0.5, "dram", (), {}, "bf16", (), BoundTimes(0.5, 0.4, 0.5))
WORK = Work({}, {}, 8, 9, 8, 9)
PROTOCOL = Protocol("cupti", "cold", "not at all", 1, 9, 120.0, 0)


def time_of(params):
    """What the fake GPU of `fakes` takes."""
    return float(abs(params["BLOCK"] - 256) + params["num_warps"])


class FakeSession:
    """Judges as `fakes.FakeProcess` does."""

    def __init__(self, *_, **__):
        pass

    def await_gpu(self):
        pass

    def measure(self, _path, _shape, params, **_):
        if params["SPLIT"] == 2:
            return Judgement(Verdict.WRONG, ("8 of 8 elements",), None, None)
        ms = time_of(params)
        return Judgement(
            Verdict.CORRECT, (), PROTOCOL, Measurement(ms, ms, ms, ms, 3.0, "cupti", 0.0, 9, 1980.0)
        )

    def close(self):
        pass


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens a bench by its name; each holds the same kernel file with the same times."""
    file = tmp_path / "scale.py"
    file.write_text("KIND = 'elementwise'\n")
    ahead, _ = fakes.fake(monkeypatch)
    monkeypatch.setattr("solkit.measure.benches.guarded.Session", FakeSession)

    def prospect(configuration):
        problem = Problem("scale", str(file), "native", "reference", SHAPE, (SHAPE,))
        described = KernelFile(problem, Candidate("kernel", str(file), RIGHT[0]))
        analysis = Analysis(AnalysisStatus.NOT_CAPTURED)
        verdict = Verdict.NOT_MEASURED
        result = Result(SHAPE, configuration.params, verdict, WORK, BOUND, analysis)
        return PreparedCandidate(described, result)

    def recording():
        kernel = kernel_at_path(file)
        for number, params in enumerate([*RIGHT, WRONG]):
            row = outcome(number, kernel_id=kernel.kernel_id, shape=SHAPE, params=params)
            row = replace(row, problem_id=kernel.problem_id(SHAPE), implementation="scale")
            right = params["SPLIT"] == 1
            verdict = Verdict.CORRECT if right else Verdict.WRONG
            yield replace(row, verdict=verdict, time_ms=time_of(params) if right else None)

    with ExitStack() as stack:

        def open_(name):
            if name.startswith("many "):
                return stack.enter_context(ManyBench([open_(name.removeprefix("many "))]))
            if name == "recorded":
                return stack.enter_context(RecordedBench(recording()))
            log = stack.enter_context(OutcomeLog(tmp_path / f"{name}.jsonl"))
            if name == "trusted":
                return stack.enter_context(TrustedBench(ahead, log))
            return stack.enter_context(GuardedBench(DEVICE, prospect, log))

        open_.asked = lambda params: Configuration(str(file), "kernel", SHAPE, params)
        open_.kernel = kernel_at_path(file)
        yield open_


@pytest.fixture(params=["trusted", "guarded", "recorded", *MANY])
def bench(request, opened):
    bench = opened(request.param)
    bench.asked = opened.asked
    return bench


def test_each_configuration_comes_once_with_its_outcome(bench):
    expected = [*map(bench.asked, RIGHT[:11]), bench.asked(WRONG)]
    bench.submit(expected)
    assert bench.pending == 12
    results = list(bench.outcomes())
    assert bench.pending == 0
    assert {id(requests) for requests, _ in results} == set(map(id, expected))
    for request, got in results:
        assert (got.params, got.shape, got.device) == (request.params, SHAPE, "h100-sxm")
        if request.params == WRONG:
            assert (got.verdict, got.time_ms) == (Verdict.WRONG, None)
        else:
            assert (got.verdict, got.time_ms) == (Verdict.CORRECT, time_of(request.params))


def test_an_outcome_says_for_how_long_the_gpu_was_held_for_it(opened):
    for name in ("trusted", "guarded"):
        bench = opened(name)
        bench.submit([opened.asked(params) for params in (*RIGHT[:3], WRONG)])
        held = [got.gpu_s for _, got in bench.outcomes()]
        assert all(item > 0.0 for item in held)
        assert sum(held) <= bench.clock.gpu_s() + 1e-6


def test_more_may_be_submitted_meanwhile_and_leaving_loses_nothing(bench):
    bench.submit([bench.asked(RIGHT[0])])
    remaining_right, seen = RIGHT[1:4], []
    while bench.pending:
        for request, _ in bench.outcomes():
            seen.append(request.params)
            if remaining_right:
                bench.submit([bench.asked(remaining_right.pop(0))])
            break
    assert seen == RIGHT[:4]


def test_what_is_discarded_has_no_outcome(bench):
    bench.submit([bench.asked(params) for params in RIGHT[:3]])
    bench.discard()
    assert bench.pending == 0
    assert list(bench.outcomes()) == []
    bench.submit([bench.asked(RIGHT[3])])
    assert [request.params for request, _ in bench.outcomes()] == [RIGHT[3]]


def test_nothing_is_begun_after_the_time_given(bench):
    bench.submit([bench.asked(params) for params in RIGHT[:3]])
    assert list(bench.outcomes(until_s=bench.clock.now_s())) == []
    assert bench.pending == 3
    assert len(list(bench.outcomes(until_s=bench.clock.now_s() + 1e6))) == 3


def test_the_clock_only_goes_forward_and_the_gpu_is_held_no_longer(bench):
    assert bench.capacity >= 1
    times = [(bench.clock.now_s(), bench.clock.gpu_s())]
    bench.submit([bench.asked(params) for params in RIGHT[:10]])
    for _ in bench.outcomes():
        times.append((bench.clock.now_s(), bench.clock.gpu_s()))
    assert times == sorted(times)
    assert all(0.0 <= gpu_s <= now_s for now_s, gpu_s in times)
    assert times[-1][1] > 0.0


def test_one_driver_runs_on_all_of_them_unchanged(opened):
    """The collector itself: it asks for the same everywhere, and finds the best."""
    expected = driven(opened, "trusted")
    for name in ("guarded", "recorded", "many recorded"):
        assert driven(opened, name) == expected


def driven(opened, name):
    """What a collection of one cell asks of a bench."""
    bench, requests = opened(name), []
    submit = bench.submit
    bench.submit = lambda configurations: (requests.extend(configurations), submit(configurations))
    kernel, default = opened.kernel, opened.asked(RIGHT[5])
    problem = kernel.problem_id(SHAPE)
    cell = Workload(kernel.kernel_id, problem, "scale", default, Space.of_points(RIGHT))
    progress = collect(iter([cell]), bench, Limits(1e6, per_cell=24))
    assert progress.rows == {"correct": 24}
    assert min(time_of(request.params) for request in requests) == 1.0
    return [(request.params, request.chosen_by) for request in requests]
