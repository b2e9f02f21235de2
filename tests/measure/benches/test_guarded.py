"""The guarded bench: what it asks its session, what is on disk when, and what ends what."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from solkit.core import (
    Analysis,
    AnalysisStatus,
    Bound,
    BoundTimes,
    Candidate,
    Configuration,
    Facts,
    KernelAnalysis,
    KernelFile,
    Launch,
    Measurement,
    MeasureSettings,
    Needed,
    Problem,
    Protocol,
    Result,
    Verdict,
    Work,
)
from solkit.datasets.facts import facts_from_json
from solkit.datasets.outcomelog import OutcomeLog, read
from solkit.errors import GpuBusyError, InputError, UnsupportedError
from solkit.measure.benches.guarded import GuardedBench
from solkit.measure.guarded.messages import Judgement
from solkit.measure.outcomes import PreparedCandidate
from solkit.roofline import devices

GPU = replace(devices.find("h100"), uuid="GPU-1", source="nvml")
FACTS = Facts(Launch("k", (1, 1, 1), 4, 3), registers=32)
BOUND = Bound(1.0, "dram", (), {}, "tolerance", (), BoundTimes(1.0, 0.5, 1.0))
READ = int(0.5e-3 * GPU.ceilings["dram"].value)  # bytes in half a millisecond
WORK = Work({}, {}, READ, 64, READ, 64)
PROTOCOL = Protocol("cupti", "cold", "read", 10, 3, 120.0, 3)


def timed(ms, needed=None):
    taken = Measurement(ms, ms, ms, ms, 3.0, "cupti", 0.0, 0, 1980.0)
    return Judgement(Verdict.CORRECT, (), PROTOCOL, taken, needed=needed)


class Session:
    """Gives each configuration the answer that a test wants; an error is raised."""

    def __init__(self, settings, gpu):
        self.settings, self.gpu = settings, gpu
        self.answers, self.asked, self.closed, self.hard_ms = {}, [], False, []
        self.limits_s, self.hopeless_ms = [], []

    def await_gpu(self):
        pass

    def measure(self, path, shape, params, *, reference, settings, hard_ms, hopeless_ms):
        self.limits_s.append(settings.time_limit_s)
        self.asked.append((path, dict(shape), dict(params), reference))
        self.hard_ms.append(hard_ms)
        self.hopeless_ms.append(hopeless_ms)
        answer = self.answers.get(params.get("BLOCK"), timed(2.0))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self):
        self.closed = True


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "scale.py"
    path.write_text("def kernel(x): ...\n")
    return str(path)


@pytest.fixture
def log(tmp_path):
    with OutcomeLog(tmp_path / "log.jsonl") as log:
        yield log


@pytest.fixture
def bench(monkeypatch, path, log):
    monkeypatch.setattr("solkit.measure.benches.guarded.Session", Session)
    problem = Problem("scale", path, "native", "reference", {"N": 8}, ({},))
    file = KernelFile(problem, Candidate("kernel", path, {"BLOCK": 1}))
    analysis = Analysis(AnalysisStatus.COMPLETE, (KernelAnalysis(FACTS),), is_whole=True)

    def prospect(item):
        params = {"BLOCK": 1, **item.params}
        verdict = Verdict.NOT_MEASURED
        return PreparedCandidate(file, Result(item.shape, params, verdict, WORK, BOUND, analysis))

    with GuardedBench(GPU, prospect, log, MeasureSettings(), {"triton": "3.7.1"}) as bench:
        yield bench


def at(path, *blocks):
    return [Configuration(path, "kernel", {"N": 8}, {"BLOCK": n}, None, "random") for n in blocks]


def test_each_outcome_is_on_disk_before_it_is_yielded(bench, path, log):
    request = at(path, 1, 2)
    bench.submit(request)
    assert (bench.pending, bench.clock.gpu_s()) == (2, 0.0)
    for number, (configuration, outcome) in enumerate(bench.outcomes(), 1):
        assert configuration is request[number - 1]
        assert read(log.path).rows[-1] == outcome
        assert len(read(log.path).rows) == number
        assert (outcome.params, outcome.chosen_by) == ({"BLOCK": number}, "random")
    assert bench.pending == 0
    assert bench.clock.gpu_s() > 0
    assert bench._session.asked == [(path, {"N": 8}, {"BLOCK": n}, None) for n in (1, 2)]
    assert bench._session.gpu == "GPU-1"


def test_waiting_for_another_session_is_not_the_gpus_time(bench, path, monkeypatch):
    now_s = [100.0]

    def another_session_ends():
        now_s[0] += 30.0

    monkeypatch.setattr(bench.clock, "now_s", lambda: now_s[0])
    monkeypatch.setattr(bench._session, "await_gpu", another_session_ends)
    bench.submit(at(path, 1))
    ((_, outcome),) = bench.outcomes()
    assert (now_s[0], bench.clock.gpu_s(), outcome.gpu_s) == (130.0, 0.0, 0.0)


def test_what_another_session_takes_meanwhile_is_not_the_gpus_time(bench, path, monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(bench.clock, "now_s", lambda: now_s[0])

    def measure_for_2_s(*_, **__):
        now_s[0] += 2.0
        return timed(2.0)

    def wait_for_30_s():
        now_s[0] += 30.0

    monkeypatch.setattr(bench._session, "measure", measure_for_2_s)
    bench.submit(at(path, 1, 2))
    outcomes = bench.outcomes()
    next(outcomes)
    now_s[0] += 1.0  # idle, but held
    bench._session.on_leave()
    assert bench.clock.gpu_s() == 3.0
    monkeypatch.setattr(bench._session, "await_gpu", wait_for_30_s)
    (_, outcome) = next(outcomes)
    assert (now_s[0], bench.clock.gpu_s(), outcome.gpu_s) == (135.0, 5.0, 2.0)


def test_what_autotuners_compile_is_not_the_gpus_time(bench, path, monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(bench.clock, "now_s", lambda: now_s[0])

    def tune_for_50_s(*_, **__):
        now_s[0] += 50.0
        return replace(timed(2.0), compiled_s=45.0)

    monkeypatch.setattr(bench._session, "measure", tune_for_50_s)
    bench.submit(at(path, 1))
    ((_, outcome),) = bench.outcomes()
    assert (bench.clock.gpu_s(), outcome.gpu_s) == (5.0, 5.0)


def test_a_gpu_that_cannot_be_locked_is_an_outcome_too(bench, path, monkeypatch):
    def refuse():
        raise UnsupportedError("no folder for the lock")

    monkeypatch.setattr(bench._session, "await_gpu", refuse)
    bench.submit(at(path, 1))
    ((_, outcome),) = bench.outcomes()
    assert (outcome.verdict, outcome.message) == (Verdict.NOT_MEASURED, "no folder for the lock")


def test_leaving_loses_nothing_and_more_may_be_submitted_meanwhile(bench, path):
    bench.submit(at(path, 1, 2))
    next(bench.outcomes())
    bench.submit(at(path, 3))
    assert [outcome.params["BLOCK"] for _, outcome in bench.outcomes()] == [2, 3]
    bench.submit(at(path, 4))
    bench.discard()
    assert list(bench.outcomes()) == []


def test_it_stops_at_a_time(bench, path):
    bench.submit(at(path, 1))
    assert list(bench.outcomes(until_s=0.0)) == []
    assert bench.pending == 1


def test_the_session_is_told_what_is_hopeless(bench, path):
    usual, limited = at(path, 1, 2)
    bench.submit([usual, replace(limited, hopeless_ms=4.0)])
    assert len(list(bench.outcomes())) == 2
    assert bench._session.hopeless_ms == [None, 4.0]


@pytest.mark.parametrize(
    ("ms", "read", "verdict", "evidence"),
    [
        (2.0, None, "correct", "static"),
        (0.9, None, "beats_algorithm", "static"),
        (0.4, None, "beats_algorithm", "static"),  # what the inputs need was not measured
        (0.4, READ, "impossible", "measured"),
        (0.4, READ // 2, "beats_algorithm", "measured"),  # a mask hides the other half
        (0.2, READ // 2, "impossible", "measured"),
    ],
)
def test_a_time_is_held_against_the_bounds(bench, path, ms, read, verdict, evidence):
    bench._session.answers[1] = timed(ms, None if read is None else Needed(read, 64, samples=512))
    bench.submit(at(path, 1))
    ((_, outcome),) = bench.outcomes()
    assert (outcome.verdict.value, outcome.time_ms, outcome.bound_ms) == (verdict, ms, 1.0)
    assert outcome.hard_evidence == evidence
    assert outcome.hard_bound_ms == pytest.approx(0.5 if read is None else 0.5 * read / READ)
    assert bench._session.hard_ms == [0.5]
    if read is not None:
        (result,) = outcome.evidence
        assert f"{read:,} bytes of input" in result
        assert "512 sectors" in result


def test_a_need_that_was_measured_holds_for_other_candidates(bench, path):
    bench._session.answers |= {1: timed(0.4, Needed(READ // 2, 64)), 2: timed(0.3), 3: timed(0.4)}
    bench.submit(at(path, 1, 2, 3))
    outcomes = [outcome for _, outcome in bench.outcomes()]
    assert bench._session.hard_ms == pytest.approx([0.5, 0.25, 0.25])
    assert {outcome.hard_evidence for outcome in outcomes} == {"measured"}
    assert {outcome.verdict for outcome in outcomes} == {Verdict.BEATS_ALGORITHM}


def test_what_is_known_of_its_launches_is_kept_once(bench, path, log):
    bench.submit(at(path, 1, 1, 2))
    facts_ids = [outcome.facts_id for _, outcome in bench.outcomes()]
    assert facts_ids[0] == facts_ids[1] != facts_ids[2]
    stored = {items.id: facts_from_json(items.text) for items in read(log.path).facts}
    assert stored == {facts_ids[0]: (FACTS,), facts_ids[2]: (FACTS,)}
    (source,) = read(log.path).sources
    assert source.text == "def kernel(x): ...\n"


@pytest.mark.parametrize("error", [InputError("no such size"), UnsupportedError("too large")])
def test_what_cannot_be_measured_is_an_outcome_too(bench, path, error):
    bench._session.answers[1] = error
    bench.submit(at(path, 1, 2))
    (_, first), (_, second) = bench.outcomes()
    assert (first.verdict, first.message) == (Verdict.NOT_MEASURED, str(error))
    assert second.verdict is Verdict.CORRECT


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GpuBusyError("held")])
def test_what_ends_a_measurement_costs_that_one_alone(bench, path, log, error):
    bench._session.answers[2] = error
    bench.submit(at(path, 1, 2, 3))
    outcomes = bench.outcomes()
    next(outcomes)
    with pytest.raises(type(error)):
        next(outcomes)
    assert [outcome.params["BLOCK"] for _, outcome in bench.outcomes()] == [3]
    assert [row.params["BLOCK"] for row in read(log.path).rows] == [1, 3]


def test_several_threads_share_it(bench, path, log):
    bench.submit(at(path, *range(20)))
    results = []

    def take():
        results.extend(outcome.params["BLOCK"] for _, outcome in bench.outcomes())

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(20)) == [r.params["BLOCK"] for r in read(log.path).rows]


def test_a_gpu_of_the_catalogue_measures_nothing(log):
    with pytest.raises(UnsupportedError, match="it is not in this machine"):
        GuardedBench(devices.find("h100"), lambda _: None, log)


@pytest.mark.parametrize(("failure", "limit_s"), [("", 30.0), ("timed_out", 15.0)])
def test_running_on_fake_tensors_counts_within_the_time_limit(
    monkeypatch, path, log, failure, limit_s
):
    monkeypatch.setattr("solkit.measure.benches.guarded.Session", Session)
    problem = Problem("scale", path, "native", "reference", {"N": 8}, ({},))
    file = KernelFile(problem, Candidate("kernel", path, {}))
    analysis = Analysis(AnalysisStatus.NOT_CAPTURED, failure=failure)

    def prospect(item):
        return PreparedCandidate(
            file, Result(item.shape, {}, Verdict.NOT_MEASURED, WORK, BOUND, analysis)
        )

    with GuardedBench(GPU, prospect, log, MeasureSettings(time_limit_s=30.0)) as bench:
        bench.submit(at(path, 1))
        list(bench.outcomes())
        assert bench._session.limits_s == [limit_s]
