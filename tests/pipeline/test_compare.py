"""`solkit.compare`: what is measured in what order, what is on disk when, and what follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import solkit
from solkit.core import (
    Configuration,
    Difference,
    Measurement,
    MeasureSettings,
    Protocol,
    Verdict,
)
from solkit.datasets.outcomelog import is_outcome_log, read
from solkit.errors import InputError, UnsupportedError
from solkit.measure.guarded.messages import JudgedTurns, Judgement, Turns
from solkit.pipeline.comparing import compare_in_turns
from solkit.roofline import devices, nvml

PROBLEM = """
SHAPES = [{"N": 1024}, {"N": 2048}]
def inputs(N=1024, device="cuda"):
    return torch.randn(N, device=device)
def reference(x):
    return x * 2
def kernel(x, *, SCALE=2):
    return x * SCALE
"""
CANDIDATE = "def kernel(x, *, FAST=True):\n    return x * 2\n"
PROTOCOL = Protocol("cupti", "cold", "read", 10, 20, 240.0, 3)


class Session:
    """Gives the times that a test wants, and notes what was asked, and what was on disk then."""

    def __init__(self, store):
        self.store, self.asked, self.settings = store, [], None
        self.verdicts = {}
        self.ms = {"problem": 2.0, "candidate": 1.0}
        self.unstable, self.errors, self.failed = (), (), 1

    def __call__(self, settings, **_):
        self.settings = settings
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def await_gpu(self):
        pass

    def prepare(self, paths, count, loads):
        assert count == 2
        assert not loads  # neither file is a program of Inductor's
        self.prepared = [Path(path).stem for path in paths]

    def close(self):
        pass

    def _note(self, *arguments):
        self.asked.append(
            (*arguments, len(read(self.store).rows) if is_outcome_log(self.store) else 0)
        )

    def measure(self, path, shape, params, *, reference, **_):
        name = Path(path).stem
        self._note("measure", name, shape["N"], dict(params), reference and Path(reference).stem)
        verdict = self.verdicts.get((name, shape["N"]), Verdict.CORRECT)
        if verdict.is_failure:
            return Judgement(verdict, ("it is wrong",), None, None)
        ms = self.ms[name]
        taken = Measurement(ms, ms, ms, ms, 3.0, "cupti", 0.0, 20, 1980.0)
        return Judgement(verdict, (), PROTOCOL, taken)

    def compare(self, candidates, shape, *, reference):
        names = [Path(candidate.path).stem for candidate in candidates]
        params = [dict(candidate.params) for candidate in candidates]
        self._note("compare", names, shape["N"], params, Path(reference).stem)
        if self.errors:
            return JudgedTurns((), self.errors, None, Verdict.WRONG, self.failed)
        times = tuple((self.ms[name],) * 20 for name in names)
        orders = tuple(tuple(range(len(names))) for _ in range(20))
        return JudgedTurns((Turns(times, orders, None, self.unstable, ("a note",)),), (), PROTOCOL)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs.jsonl"


@pytest.fixture
def session(monkeypatch, store):
    h100 = replace(devices.find("h100"), source="nvml", uuid="GPU-1")
    monkeypatch.setattr(nvml, "live_devices", lambda: (h100,))
    session = Session(store)
    monkeypatch.setattr("solkit.measure.benches.guarded.Session", session)
    return session


@pytest.fixture
def files(write):
    return write(PROBLEM), write(CANDIDATE, "candidate.py")


@pytest.mark.slow
def test_each_is_measured_and_on_disk_then_both_take_turns(session, files, store):
    settings = MeasureSettings(log=store, protocol="warm", turns_s=0.5)
    report = solkit.compare(*files, settings=settings)
    assert session.settings == settings
    own, other = {"SCALE": 2}, {"FAST": True}
    assert session.asked == [
        ("measure", "problem", 1024, {}, None, 0),
        ("measure", "candidate", 1024, {}, "problem", 1),
        ("compare", ["problem", "candidate"], 1024, [own, other], "problem", 2),
        ("measure", "problem", 2048, {}, None, 3),
        ("measure", "candidate", 2048, {}, "problem", 4),
        ("compare", ["problem", "candidate"], 2048, [own, other], "problem", 5),
    ]
    assert [comparison.base.shape["N"] for comparison in report.comparisons] == [1024, 2048]
    first = report.comparisons[0]
    assert first.difference is Difference.FASTER
    assert first.ratio.value == 0.5
    assert first.ratio.low < 0.5 < first.ratio.high < 0.51
    assert (first.base_ms, first.candidate_ms, first.protocol) == (2.0, 1.0, PROTOCOL)
    assert first.errors == ("a note",)
    assert first.kernel.name == "candidate"
    assert first.base.score.gap == pytest.approx(2 * first.candidate.score.gap)
    assert (report.base.name, [candidate.name for candidate in report.candidates]) == (
        "problem",
        ["candidate"],
    )
    assert report.failed == ()


def in_turns(files, store):
    """The comparison of two that a search has measured, and the row that it logs."""
    base, rival = (
        Configuration(path, "kernel", {"N": 512}, params, reference)
        for path, params, reference in (
            (files[0], {"SCALE": 2}, None),
            (files[1], {"FAST": False}, files[0]),
        )
    )
    report = compare_in_turns(base, rival, nvml.live_devices()[0], MeasureSettings(log=store))
    (comparison,), (row,) = report.comparisons, read(store).rows
    return comparison, row


def test_what_a_search_has_measured_is_timed_in_turns_alone(session, files, store):
    comparison, row = in_turns(files, store)
    names, params = ["problem", "candidate"], [{"SCALE": 2}, {"FAST": False}]
    assert session.asked == [("compare", names, 512, params, "problem", 0)]
    assert session.prepared == names
    assert (comparison.difference, comparison.ratio.value) == (Difference.FASTER, 0.5)
    assert (comparison.base_ms, comparison.candidate_ms) == (2.0, 1.0)
    assert (row.verdict, row.params) == (Verdict.CORRECT, {"FAST": False})
    assert row.comparison.params == {"SCALE": 2}
    digests = {source.sha256 for source in read(store).sources}
    assert {row.source_sha256, row.comparison.source_sha256} <= digests


@pytest.mark.parametrize(
    ("failed", "verdict"), [(1, Verdict.WRONG), (0, Verdict.NOT_MEASURED)], ids=["it", "the base"]
)
def test_one_that_is_wrong_in_turns_says_so(session, files, store, failed, verdict):
    session.errors, session.failed = ("output 0 differs",), failed
    comparison, row = in_turns(files, store)
    assert comparison.difference is Difference.NOT_COMPARED
    assert comparison.errors == ("output 0 differs",)
    assert row.verdict is verdict


@pytest.mark.slow
@pytest.mark.usefixtures("session")
def test_a_comparison_is_a_trace_of_its_own(files, store):
    solkit.compare(*files, settings=MeasureSettings(log=store), shapes=[{"N": 512}])
    log = read(store)
    (base, candidate, compared), faults = log.rows, log.faults
    assert faults == ()
    assert base.comparison is candidate.comparison is compared.time_ms is None
    assert compared.key == candidate.key
    assert (compared.method, compared.warmup_calls, compared.time_limit_s) == ("cupti", 10, 240.0)
    assert compared.samples_ms == (1.0,) * 20
    reported_comparison = compared.comparison
    assert (
        reported_comparison.kernel_id,
        reported_comparison.params,
        reported_comparison.path,
    ) == (base.kernel_id, base.params, base.path)
    assert (reported_comparison.entry_point, reported_comparison.source_sha256) == (
        base.entry_point,
        base.source_sha256,
    )
    assert reported_comparison.samples_ms == (2.0,) * 20
    assert (reported_comparison.difference, reported_comparison.ratio.value) == (
        Difference.FASTER,
        0.5,
    )
    assert {source.sha256 for source in log.sources} == {
        base.source_sha256,
        candidate.source_sha256,
    }
    assert compared.evidence == ("a note",)


def test_one_file_with_other_parameters(session, files):
    report = solkit.compare(
        files[0], files[0], base_params={"SCALE": 3}, params={"SCALE": 4}, shapes=[{"N": 512}]
    )
    assert [request[3] for request in session.asked] == [
        {"SCALE": 3},
        {"SCALE": 4},
        [{"SCALE": 3}, {"SCALE": 4}],
    ]
    (comparison,) = report.comparisons
    assert comparison.difference is Difference.NOT_SHOWN
    assert comparison.candidate.params == {"SCALE": 4}


@pytest.mark.slow
def test_conditions_that_make_it_unstable(session, files):
    session.unstable = ("It was hot.",)
    (comparison,) = solkit.compare(*files, shapes=[{"N": 512}]).comparisons
    assert comparison.difference is Difference.UNSTABLE
    assert comparison.ratio.value == 0.5
    assert comparison.errors == ("It was hot.", "a note")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "error"), [("problem", "The base failed."), ("candidate", "The candidate failed.")]
)
def test_who_failed_is_not_run_again(session, files, store, wrong, error):
    session.verdicts = {(wrong, 512): Verdict.WRONG}
    (comparison,) = solkit.compare(
        *files, shapes=[{"N": 512}], settings=MeasureSettings(log=store)
    ).comparisons
    assert comparison.difference is Difference.NOT_COMPARED
    assert comparison.ratio is comparison.base_ms is comparison.protocol is None
    assert comparison.errors == (error,)
    assert [request[0] for request in session.asked] == ["measure", "measure"]
    compared = read(store).rows[2]
    assert compared.comparison.ratio is None
    assert compared.samples_ms == compared.comparison.samples_ms == ()


@pytest.mark.slow
def test_one_that_fails_in_turns_alone_is_not_compared(session, files):
    session.errors = ("candidate: output 0 differs (a timed call)",)
    (comparison,) = solkit.compare(*files, shapes=[{"N": 512}]).comparisons
    assert comparison.difference is Difference.NOT_COMPARED
    assert comparison.errors == session.errors


@pytest.mark.slow
def test_of_many_candidates_those_that_are_right_take_turns(session, files, write):
    other = write(CANDIDATE, "other.py")
    session.ms["other"] = 4.0
    session.verdicts = {("candidate", 512): Verdict.CRASHED}
    report = solkit.compare(*files, other, shapes=[{"N": 512}])
    assert session.asked[-1][1] == ["problem", "other"]
    assert [comparison.difference for comparison in report.comparisons] == [
        Difference.NOT_COMPARED,
        Difference.SLOWER,
    ]
    assert report.comparisons[1].ratio.value == pytest.approx(2.0)


def test_a_candidate_for_another_problem(session, files, write):
    other = write(CANDIDATE.replace("kernel(x,", "kernel(x, y,"), "candidate.py")
    with pytest.raises(InputError, match="missing a required argument: 'y'"):
        solkit.compare(files[0], other)
    assert session.asked == []


def test_it_takes_a_gpu_and_a_candidate(files):
    with pytest.raises(UnsupportedError, match="it is not in this machine"):
        solkit.compare(*files, device="a100")
    with pytest.raises(InputError, match="expected at least one beside the base"):
        solkit.compare(files[0])
