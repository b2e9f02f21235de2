"""`solkit.Lab`, as the author of a search loop uses it: real processes, a simulated GPU."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import solkit
from solkit.core import AnalysisStatus, Configuration, MeasureSettings, Verdict
from solkit.datasets.outcomelog import read
from solkit.errors import InputError, NotRecordedError, UnsupportedError
from solkit.measure import Session
from solkit.measure.benches import RecordedBench
from solkit.pipeline.evaluation import Evaluation
from solkit.pipeline.source_files import Texts
from solkit.roofline import devices, nvml

PROBLEM = """
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

SHAPES = [{"N": 32}]
"""
RIGHT = "def kernel(x, *, SCALE=2):\n    return x + x  # {}\n"
WRONG = "def kernel(x):\n    return x * 3  # {}\n"
HANGING = """
import time, torch
def kernel(x):  # {}
    while type(x) is torch.Tensor:  # not while it is analysed, on a fake one
        time.sleep(0.1)
    return x + x
"""
DYING = """
import os, torch
def kernel(x):  # {}
    if type(x) is torch.Tensor:
        os._exit(3)
    return x + x
"""
BROKEN = "def kernel(x:\n    # {}\n"
KINDS = (RIGHT, WRONG, RIGHT, BROKEN, RIGHT)
EXPECTED = {RIGHT: "correct", WRONG: "wrong", HANGING: "timed_out", DYING: "crashed"}


@pytest.fixture
def gpu(monkeypatch):
    """A GPU whose timers tell 100 ms for a candidate and 300 ms for the reference."""
    h100 = replace(devices.find("h100"), source="nvml", uuid="GPU-1")
    monkeypatch.setattr(nvml, "live_devices", lambda: (h100,))
    on_the_cpu = partial(Session, device="cpu")
    monkeypatch.setattr("solkit.measure.benches.guarded.Session", on_the_cpu)
    monkeypatch.setattr("solkit.measure.guarded.processes._REFEREE", "simulated:referee")
    monkeypatch.setattr("solkit.measure.guarded.processes._CANDIDATE", "simulated:candidate")
    return h100


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


@pytest.fixture
def lab(gpu, log):
    del gpu
    with solkit.Lab(settings=MeasureSettings(log=log, time_limit_s=6.0)) as lab:
        yield lab


def interrupted_once(running):
    """Interrupt this process when a candidate runs."""

    def interrupt():
        while not running.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


@pytest.mark.slow
def test_a_search_loop_over_a_few_texts(lab, log):
    """One is right, one is wrong, one is no Python, one dies."""
    texts = [kind.format(n) for n, kind in enumerate((RIGHT, WRONG, BROKEN, DYING))]
    by_text = {evaluation.candidate: evaluation for evaluation in lab.evaluate_all(texts, PROBLEM)}
    right, wrong, broken, dying = map(by_text.get, texts)
    assert "SyntaxError" in str(broken.error)
    verdicts = [item.verdict.value for item in (right, wrong, dying)]
    assert verdicts == ["correct", "wrong", "crashed"]
    assert (right.time_ms, wrong.time_ms, dying.time_ms) == (100.5, None, None)
    written = read(log)
    assert written.faults == ()
    assert {source.text for source in written.sources} == {PROBLEM, texts[0], texts[1], texts[3]}


@pytest.mark.slow
def test_a_search_loop_over_twenty_texts(lab, log, tmp_path):
    """Some are wrong, some are no Python, one hangs, one dies, one is interrupted."""
    running = tmp_path / "running"
    slow = HANGING.replace("time.sleep(0.1)", f"open({str(running)!r}, 'w').close()")
    texts = [KINDS[n % len(KINDS)].format(n) for n in range(16)]
    texts += [HANGING.format(16), DYING.format(17), slow.format(18)]
    evaluations = list(lab.evaluate_all(texts[:8], PROBLEM))
    evaluations += [lab.evaluate(text, PROBLEM) for text in texts[8:18]]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs may ignore it
    interrupted_once(running)
    with pytest.raises(KeyboardInterrupt):
        lab.evaluate(texts[18], PROBLEM)
    signal.signal(signal.SIGINT, before)
    evaluations.append(lab.evaluate(RIGHT.format(19), PROBLEM))

    assert sorted(evaluation.candidate for evaluation in evaluations) == sorted(
        [*texts[:18], RIGHT.format(19)]
    )
    usable = [evaluation for evaluation in evaluations if evaluation.error is None]
    assert len(evaluations) - len(usable) == 3  # those that are no Python
    assert all(
        "SyntaxError" in str(evaluation.error)
        for evaluation in evaluations
        if evaluation not in usable
    )
    for item in usable:
        kind = next(kind for kind in EXPECTED if item.candidate.startswith(kind.split("{")[0]))
        assert item.verdict.value == EXPECTED[kind], item
        assert item.result.bound.time_ms > 0
        assert item.outcome.verdict is item.result.verdict
        if kind is RIGHT:
            assert item.time_ms == 100.5
            assert item.result.score.gap == 100.5 / item.result.bound.time_ms
            assert item.result.measurement.reference_ms == 300.5
        else:
            assert item.time_ms is None
    written = read(log)
    assert written.faults == ()
    assert len(written.rows) == len(usable) == 16
    assert Counter(row.verdict for row in written.rows) == Counter(e.verdict for e in usable)
    assert {row.chosen_by for row in written.rows} == {"search"}
    assert {row.shape["N"] for row in written.rows} == {32}
    sources = {source.text for source in written.sources}
    assert sources == {PROBLEM, *(items.candidate for items in usable)}


@pytest.mark.slow
def test_processes_stay_warm_between_candidates(lab):
    lab.evaluate(RIGHT.format(0), PROBLEM)
    session = lab._bench.bench._session
    pids = session.pids
    assert len(pids) == 2
    lab.evaluate(WRONG.format(1), PROBLEM)
    assert session.pids == pids
    lab.close()
    assert session.pids == ()


def test_each_question_alone(lab, write):
    problem = write(PROBLEM)
    candidate = write(RIGHT, "candidate.py")
    assert lab.bound(problem).at.hard_ms == lab.bound(PROBLEM, {"N": 32}).at.hard_ms
    assert lab.bound(problem, {"N": 1 << 20}).time_ms > lab.bound(problem).time_ms
    alone = lab.analyse(candidate, problem)
    assert alone.status is AnalysisStatus.COMPLETE
    assert all(kernel.launch.library for kernel in alone.kernels)  # torch alone
    outcome = lab.measure(candidate, problem, shape={"N": 64}, params={"SCALE": 3})
    assert (outcome.verdict, outcome.time_ms) == (Verdict.CORRECT, 100.5)
    assert (outcome.shape["N"], outcome.params) == (64, {"SCALE": 3})
    assert outcome.path == candidate
    with pytest.raises(InputError, match="SyntaxError"):
        lab.measure(BROKEN, problem)
    with pytest.raises(InputError, match="no size 'Q'"):
        lab.bound(problem, {"Q": 1})


@pytest.mark.slow
def test_one_file_with_many_parameters(lab, write):
    file, problem = write(RIGHT, "candidate.py"), write(PROBLEM)
    configurations = [
        Configuration(file, "kernel", {}, {"SCALE": n}, problem, "random") for n in range(4)
    ]
    results = {
        id(evaluation.candidate): evaluation
        for evaluation in lab.evaluate_all(configurations, shape={"N": 8})
    }
    for configuration in configurations:
        outcome = results[id(configuration)].outcome
        assert (outcome.params, outcome.shape["N"]) == (configuration.params, 8)
        assert (outcome.chosen_by, outcome.verdict) == ("random", Verdict.CORRECT)
    own = Configuration(RIGHT, "kernel", {"N": 4}, reference=PROBLEM)
    assert lab.measure(own).shape["N"] == 4


@pytest.mark.slow
def test_several_threads_and_endless_candidates(lab, log):
    def search(kind):
        endless = (kind.format(number) for number in count())
        evaluations = lab.evaluate_all(endless, PROBLEM)
        return [next(evaluations).verdict for _ in range(2)]

    with ThreadPoolExecutor(3) as pool:
        verdicts = list(pool.map(search, (RIGHT, WRONG, RIGHT)))
    assert verdicts == [[Verdict.CORRECT] * 2, [Verdict.WRONG] * 2, [Verdict.CORRECT] * 2]
    assert len(read(log).rows) >= 6


@pytest.mark.slow
def test_a_text_has_a_private_file_named_by_its_hash(lab):
    evaluation = lab.evaluate(RIGHT, PROBLEM)
    path = Path(evaluation.configuration.path)
    assert path.read_text() == RIGHT
    assert evaluation.outcome.source_sha256.startswith(path.stem)
    assert (path.parent.stat().st_mode | path.parents[1].stat().st_mode) & 0o077 in (0, 0o055)
    assert path.parents[1].stat().st_mode & 0o077 == 0
    again = lab.evaluate(RIGHT, PROBLEM)
    assert again.configuration.path == str(path)
    path.write_text("changed = True\n")
    assert lab.evaluate(RIGHT, PROBLEM).verdict is Verdict.CORRECT
    lab.close()
    assert not path.exists()


def test_without_a_gpu_there_is_all_but_an_outcome(monkeypatch, log):
    monkeypatch.setattr(nvml, "live_devices", lambda: ())
    with solkit.Lab("a100", settings=MeasureSettings(log=log)) as lab:
        evaluation = lab.evaluate(RIGHT, PROBLEM)
        assert (evaluation.outcome, evaluation.error, evaluation.verdict) == (
            None,
            None,
            Verdict.NOT_MEASURED,
        )
        assert evaluation.result.bound.time_ms == lab.bound(PROBLEM).time_ms > 0
        with pytest.raises(UnsupportedError, match="it is not in this machine"):
            lab.measure(RIGHT, PROBLEM)
    assert not log.exists()


def wait_until(condition, limit_s=120):
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.slow
def test_leaving_an_iterator_ends_what_it_began(monkeypatch, log, tmp_path):
    monkeypatch.setattr(nvml, "live_devices", lambda: ())
    hanging = f"""
import os, pathlib, time
def kernel(x):
    pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
    time.sleep(600)
"""
    with solkit.Lab("h100", settings=MeasureSettings(log=log)) as lab:
        evaluations = lab.evaluate_all([RIGHT.format(0), hanging], PROBLEM)
        assert next(evaluations).result is not None
        file = tmp_path / "pid"
        assert wait_until(lambda: file.exists() and file.read_text())  # it is written in two steps
        evaluations.close()
        process = Path("/proc", file.read_text())
        assert wait_until(lambda: not process.exists())


@pytest.mark.slow
def test_on_a_recording(lab, log, monkeypatch):
    right, wrong = lab.evaluate(RIGHT, PROBLEM), lab.evaluate(WRONG, PROBLEM)
    lab.close()
    monkeypatch.setattr(nvml, "live_devices", lambda: ())
    bench = RecordedBench.read(log)
    with solkit.Lab(bench=bench) as replay:
        evaluation = replay.evaluate(RIGHT, PROBLEM, params={"SCALE": 2})
        assert replay.evaluate(WRONG, PROBLEM).outcome.message == wrong.outcome.message
        assert (evaluation.outcome.time_ms, evaluation.outcome.verdict) == (100.5, Verdict.CORRECT)
        assert evaluation.result.score == right.result.score
        other = replay.evaluate(RIGHT, PROBLEM, params={"SCALE": 5})
    assert isinstance(other.error, NotRecordedError)
    assert other.result.bound.time_ms == evaluation.result.bound.time_ms
    assert bench.clock.now_s() > 0


def test_a_lab_takes_no_counters():
    with pytest.raises(InputError, match="counters: a Lab takes none"):
        solkit.Lab("h100", settings=MeasureSettings(counters=True))


def test_files_of_texts_are_not_held_open():
    texts = Texts()
    paths = [texts.path(f"x = {number}\n") for number in range(3)]
    opened = [path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert not any(path.is_relative_to(Path(paths[0]).parents[1]) for path in opened)
    assert [Path(path).read_text() for path in paths] == ["x = 0\n", "x = 1\n", "x = 2\n"]
    texts.close()


def test_what_a_study_begins_after_the_iterator_was_left_is_given_up(monkeypatch, log):
    monkeypatch.setattr(nvml, "live_devices", lambda: ())
    left, given_up = threading.Event(), threading.Event()

    def study(candidate, _problem, _shape, _params, begun):
        if candidate == "late":
            assert left.wait(120)
            answer = Future()
            answer.add_done_callback(lambda _: given_up.set())
            begun.add(answer)
        return Evaluation(candidate), None

    with solkit.Lab("h100", settings=MeasureSettings(log=log)) as lab:
        monkeypatch.setattr(lab._prepared, "study_candidate", study)
        evaluations = lab.evaluate_all(["late", "early"])
        assert next(evaluations).candidate == "early"
        evaluations.close()
        left.set()
        assert given_up.wait(120)
