"""The process that times, from outside: processes are real, what they do is `served`."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest
import served
from recordings import outcome

from solkit.core import Verdict
from solkit.errors import WorkerError
from solkit.measure.benches.trusted import process as timing_process
from solkit.measure.benches.trusted.process import LostError, TimingProcess
from solkit.measure.benches.trusted.timing import Handful
from solkit.roofline import devices

DEVICE = replace(devices.find("h100-sxm"), uuid="GPU-0")
DRAFTS = [outcome(n, verdict=Verdict.NOT_MEASURED) for n in range(3)]


def handful(path="answers"):
    return Handful(path, None, {"N": 8}, DRAFTS)


@pytest.fixture
def forking(monkeypatch):
    """Takes milliseconds where starting anew takes seconds, which are torch's."""
    forked = SimpleNamespace(get_context=lambda _: multiprocessing.get_context("fork"))
    monkeypatch.setattr(timing_process, "multiprocessing", forked)


@pytest.fixture
def process(monkeypatch, forking):  # noqa: ARG001
    monkeypatch.setattr(timing_process, "serve", served.serve)
    with closing(TimingProcess(DEVICE, {"A": "1"}, limit_s=300.0)) as process:
        yield process


def pid_of(process):
    found = process.outcomes(handful())
    assert [each.verdict for each in found] == [Verdict.CORRECT] * 3
    return int(found[0].message)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_one_process_answers_all(monkeypatch):
    monkeypatch.setattr(timing_process, "serve", served.serve)
    with closing(TimingProcess(DEVICE, {"A": "1"})) as process:
        assert process.start() == served.ENVIRONMENT
        first = pid_of(process)
        assert first != os.getpid()
        assert pid_of(process) == first


@pytest.mark.quick("dies-crashed-it", "GPU-crashed-an")
@pytest.mark.parametrize(
    ("path", "verdict", "message"),
    [
        ("dies", Verdict.CRASHED, "it ended its process (exit code 7)"),
        ("is killed", Verdict.NOT_MEASURED, "it ended its process (exit code -9)"),  # from outside
        ("is killed and goes slowly", Verdict.NOT_MEASURED, "it ended its process (exit code -9)"),
        ("hangs", Verdict.TIMED_OUT, "killed after 3 s"),
        ("loses the GPU", Verdict.CRASHED, "an illegal memory access"),
    ],
)
def test_what_was_called_last_is_to_blame_and_another_process_goes_on(
    process, monkeypatch, path, verdict, message
):
    first = pid_of(process)
    with monkeypatch.context() as patch:
        if path == "hangs":
            patch.setattr(process, "_limit_s", 3.0)  # in which a busy machine runs it at all
        with pytest.raises(LostError) as lost:
            process.outcomes(handful(path))
    assert lost.value.number == 1
    assert (lost.value.outcome.verdict, lost.value.outcome.message) == (verdict, message)
    assert is_gone(first)
    assert pid_of(process) != first


def test_one_that_was_loaded_leaves_the_gpu_alone_until_it_starts(process):
    process.load()
    loaded = process._spare
    process.load()  # one is enough
    assert process._spare is loaded
    assert not loaded.connection.poll(0.3)  # it would tell its environment once it has the GPU
    assert process.start() == served.ENVIRONMENT
    assert pid_of(process) == loaded.process.pid


def test_one_that_was_loaded_and_died_is_replaced(process):
    process.load()
    loaded = process._spare.process
    loaded.kill()
    loaded.join()
    assert process.start() == served.ENVIRONMENT
    assert pid_of(process) != loaded.pid


def test_one_that_was_loaded_for_nothing_ends_too(process):
    process.load()
    pid = process._spare.process.pid
    process.close()
    assert is_gone(pid)
    assert pid_of(process) != pid  # it can be used again


def test_what_ends_it_before_any_call_is_no_fault_of_theirs(process):
    found = process.outcomes(handful("dies at once"))
    assert [each.verdict for each in found] == [Verdict.NOT_MEASURED] * 3
    assert "exit code 7" in found[2].message


def test_one_that_was_killed_meanwhile_is_replaced(process):
    first = pid_of(process)
    os.kill(first, signal.SIGKILL)
    process._now.process.join()
    assert pid_of(process) != first


def test_one_that_dies_just_before_it_is_asked_costs_no_more_than_that_handful(
    process, monkeypatch
):
    first = pid_of(process)
    spare, gone = process._spare.process.pid, process._now.process
    os.kill(first, signal.SIGKILL)
    gone.join()
    monkeypatch.setattr(gone, "is_alive", lambda: True)  # as it was when it was looked
    found = process.outcomes(handful())
    assert [each.verdict for each in found] == [Verdict.NOT_MEASURED] * 3
    assert "exit code -9" in found[0].message
    assert pid_of(process) == spare


@pytest.mark.slow
def test_a_spare_one_takes_over(process):
    first = pid_of(process)
    spare = process._spare.process.pid
    os.kill(first, signal.SIGKILL)
    process._now.process.join()
    assert pid_of(process) == spare
    assert process._spare.process.pid not in (first, spare)


@pytest.mark.usefixtures("forking")
def test_it_ends_with_its_block(monkeypatch):
    monkeypatch.setattr(timing_process, "serve", served.serve)
    with closing(TimingProcess(DEVICE, {"A": "1"})) as process:
        pid, spare = pid_of(process), process._spare.process.pid
    assert is_gone(pid)
    assert is_gone(spare)


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize(("what", "code"), [("no_gpu", 3), ("silent", -9)])
def test_one_that_does_not_start(monkeypatch, what, code):
    monkeypatch.setattr(timing_process, "serve", getattr(served, what))
    monkeypatch.setattr(timing_process, "_START_S", 60.0 if what == "no_gpu" else 0.2)
    with closing(TimingProcess(DEVICE, {"A": "1"})) as process, pytest.raises(WorkerError) as error:
        process.start()
    assert f"did not start (exit code {code})" in str(error.value)
