"""The process that times, from outside: processes are real, what they do is `served`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
import served
from recordings import outcome

from solkit.core import Verdict
from solkit.errors import WorkerError
from solkit.measure.benches.trusted import process as timing_process
from solkit.measure.benches.trusted.process import LostError, TimingProcess
from solkit.measure.benches.trusted.timing import Handful
from solkit.processes.forkserver import Fork, ForkServer
from solkit.roofline import devices

DEVICE = replace(devices.find("h100-sxm"), uuid="GPU-0")
DRAFTS = [outcome(n, verdict=Verdict.NOT_MEASURED) for n in range(3)]


def handful(path="answers"):
    return Handful(path, None, {"N": 8}, DRAFTS)


@pytest.fixture(scope="module")
def server():
    """One that loads no torch, which takes seconds, for all tests."""
    with closing(ForkServer("gc:collect", {})) as server:
        yield server


@pytest.fixture(autouse=True)
def served_by(monkeypatch, server):
    monkeypatch.setattr(timing_process, "measuring_server", server)
    monkeypatch.setattr(timing_process, "_SERVE", "served:serve")
    return lambda name: monkeypatch.setattr(timing_process, "_SERVE", f"served:{name}")


@pytest.fixture
def process():
    with closing(TimingProcess(DEVICE, {"A": "1"}, limit_s=300.0)) as process:
        yield process


def pid_of(process):
    results = process.outcomes(handful())
    assert [result.verdict for result in results] == [Verdict.CORRECT] * 3
    return int(results[0].message)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_one_process_answers_all(process):
    assert process.start() == served.ENVIRONMENT
    first = pid_of(process)
    assert first != os.getpid()
    assert pid_of(process) == first


def test_a_file_is_loaded_whatever_becomes_of_it(process):
    process.start()
    first = pid_of(process)
    process.load_file("answers", None)
    assert pid_of(process) == first
    process.load_file("dies at once", "task.py")  # the next handful says what is wrong
    assert pid_of(process) != first


def test_an_answer_that_an_interrupt_left_behind_is_nobody_elses(process):
    process.start()
    first, receive = pid_of(process), process._receive_message

    def interrupt(_):
        process._receive_message = receive
        raise KeyboardInterrupt

    process._receive_message = interrupt
    with pytest.raises(KeyboardInterrupt):
        process.outcomes(handful())
    assert pid_of(process) != first


def test_a_script_without_a_guard_of_its_main_part_is_not_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join(filter(None, sys.path))
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "begins\nanswers\n"


SCRIPT = """
print("begins", flush=True)
from contextlib import closing
from dataclasses import replace
import served
from solkit.measure.benches.trusted import process as timing_process
from solkit.processes.forkserver import ForkServer
from solkit.roofline import devices
timing_process.measuring_server = ForkServer("gc:collect", {})
timing_process._SERVE = "served:serve"
device = replace(devices.find("h100-sxm"), uuid="GPU-0")
with closing(timing_process.TimingProcess(device, {"A": "1"})) as process:
    assert process.start() == served.ENVIRONMENT
print("answers")
"""


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


def test_loading_waits_for_nothing_and_starts_no_process(process, monkeypatch):
    started = []
    monkeypatch.setattr(timing_process.measuring_server, "start", lambda: started.append(1))
    monkeypatch.setattr(timing_process.measuring_server, "fork", None)
    process.load()
    process.load()
    assert (started, process._now, process._spare) == ([1, 1], None, None)


def test_what_ends_it_before_any_call_is_no_fault_of_theirs(process):
    results = process.outcomes(handful("dies at once"))
    assert [result.verdict for result in results] == [Verdict.NOT_MEASURED] * 3
    assert "exit code 7" in results[2].message


def test_one_that_was_killed_meanwhile_is_replaced(process):
    first = pid_of(process)
    os.kill(first, signal.SIGKILL)
    process._now.process.wait(60.0)
    assert pid_of(process) != first


def test_one_that_dies_just_before_it_is_asked_costs_no_more_than_that_handful(
    process, monkeypatch
):
    first = pid_of(process)
    spare, gone = process._spare.process.pid, process._now.process
    os.kill(first, signal.SIGKILL)
    gone.wait(60.0)
    monkeypatch.setattr(Fork, "is_alive", True)  # as it was when it was looked
    results = process.outcomes(handful())
    assert [result.verdict for result in results] == [Verdict.NOT_MEASURED] * 3
    assert "exit code -9" in results[0].message
    assert pid_of(process) == spare


def test_a_spare_one_takes_over(process):
    first = pid_of(process)
    spare = process._spare.process.pid
    os.kill(first, signal.SIGKILL)
    process._now.process.wait(60.0)
    assert pid_of(process) == spare
    assert process._spare.process.pid not in (first, spare)


def test_it_ends_with_its_block():
    with closing(TimingProcess(DEVICE, {"A": "1"})) as process:
        pid, spare = pid_of(process), process._spare.process.pid
    assert is_gone(pid)
    assert is_gone(spare)


@pytest.mark.parametrize(("what", "code"), [("no_gpu", 3), ("silent", -9)])
def test_one_that_does_not_start(monkeypatch, served_by, what, code):
    served_by(what)
    monkeypatch.setattr(timing_process, "_START_S", 60.0 if what == "no_gpu" else 0.2)
    with closing(TimingProcess(DEVICE, {"A": "1"})) as process, pytest.raises(WorkerError) as error:
        process.start()
    assert f"did not start (exit code {code})" in str(error.value)


def test_one_that_outlives_being_killed_keeps_no_other(monkeypatch):
    ended = []

    def end(process, **_):
        ended.append(process)
        if process == "spare":
            raise WorkerError("process 7 still exists")

    process = TimingProcess(DEVICE, {})
    process._now, process._spare = "now", "spare"
    monkeypatch.setattr(timing_process, "_kill_process", end)
    with pytest.raises(WorkerError, match="still exists"):
        process.close()
    assert sorted(ended) == ["now", "spare"]
    process.close()
    assert ended[2:4] == [None, None]
