"""Whatever a candidate does to its process, the next one is measured, and nothing is left behind.

On a CPU nothing can be timed, so a kernel that is right ends with an `UnsupportedError` that says
so: that far the way goes through all of checking.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from solkit.core import MeasureSettings, Verdict
from solkit.datasets.outcomelog import read
from solkit.errors import UnsupportedError, WorkerError
from solkit.measure import Session
from solkit.measure.guarded.processes import measuring_server
from solkit.processes.forkserver import children_of

HEAD = """
import ctypes, os, signal, subprocess, sys, threading, time
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""
RIGHT = "def kernel(x): return x + x"
WRONG = "def kernel(x): return x + 1"
MARK = "SOLKIT_TEST_MARK"
OUTPUT_MIB = 1024


@pytest.fixture(scope="module")
def session():
    with Session(device="cpu") as session:
        yield session
    limit = time.monotonic() + 60
    while children_of(measuring_server.pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert children_of(measuring_server.pid) == []


@pytest.fixture
def measure(session, tmp_path):
    def measure(kernel, limit_s=90.0):
        path = tmp_path / f"{uuid.uuid4().hex}.py"
        path.write_text(HEAD + kernel)
        return session.measure(str(path), {}, {}, settings=MeasureSettings(time_limit_s=limit_s))

    return measure


def marked(mark):
    """The processes, but zombies and this one, that were started with a mark."""
    results = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                results.add(int(folder.name))
    return results - {os.getpid()}


def wait_until_gone(mark, limit_s=60.0):
    limit = time.monotonic() + limit_s
    while marked(mark) and time.monotonic() < limit:
        time.sleep(0.05)
    return not marked(mark)


# The body of a kernel; then the verdict, and what the first line of evidence must say.
FAULTS = {
    "segmentation fault": ("ctypes.string_at(0)", Verdict.CRASHED, "SIGSEGV"),
    "its group killed": ("os.kill(0, signal.SIGKILL)", Verdict.CRASHED, "SIGKILL"),
    "every descriptor closed": ("os.closerange(0, 4096)", Verdict.CRASHED, ""),
    "SystemExit": ("sys.exit(3)", Verdict.CRASHED, "SystemExit"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", Verdict.CRASHED, "KeyboardInterrupt"),
    "endless recursion": ("return kernel(x)", Verdict.CRASHED, "RecursionError"),
    "MemoryError": ("raise MemoryError", Verdict.OUT_OF_MEMORY, "MemoryError"),
}

ENDLESS = {
    "loop that ignores signals": """
    for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True: time.sleep(0.1)""",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
}


def check_the_next(measure):
    """The next candidate finds all in order."""
    outcome = measure(WRONG)
    assert outcome.verdict is Verdict.WRONG, outcome.errors


@pytest.mark.quick("its group killed", "SystemExit", "KeyboardInterrupt")
@pytest.mark.parametrize("name", FAULTS)
def test_a_crash_is_the_candidates_own(measure, name):
    fault, verdict, words = FAULTS[name]
    outcome = measure(f"def kernel(x):\n    {fault}")
    assert (outcome.verdict, outcome.measurement) == (verdict, None)
    assert words in outcome.errors[0]
    check_the_next(measure)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_ends_is_killed(measure, name):
    measure(WRONG)  # both processes are there
    outcome = measure(f"def kernel(x):\n    {ENDLESS[name]}", limit_s=1.0)
    assert outcome.verdict is Verdict.TIMED_OUT
    check_the_next(measure)


@pytest.mark.slow
def test_gigabytes_of_output_do_not_stay(measure):
    flood = f"""
def kernel(x):
    line = b"x" * (1 << 20)
    for _ in range({OUTPUT_MIB}):
        os.write(1, line)
    os.write(2, b"the end\\n")
    os.abort()
"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = measure(flood)
    assert outcome.verdict is Verdict.CRASHED
    assert "the end" in "".join(outcome.errors)
    assert sum(map(len, outcome.errors)) < 64 << 10
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 << 10
    check_the_next(measure)


def test_a_crash_in_import(session, measure, tmp_path):
    problem, candidate = tmp_path / "problem.py", tmp_path / "candidate.py"
    problem.write_text(HEAD)
    candidate.write_text(f"import ctypes\nctypes.string_at(0)\n{RIGHT}")
    outcome = session.measure(str(candidate), {}, {}, reference=str(problem))
    assert outcome.verdict is Verdict.CRASHED
    assert "SIGSEGV" in outcome.errors[0]
    check_the_next(measure)


@pytest.mark.quick("False")
@pytest.mark.parametrize("also_the_server", [False, True])
def test_a_session_survives_the_death_of_its_processes(session, measure, also_the_server):
    measure(WRONG)
    for pid in (*session.pids, *([measuring_server.pid] if also_the_server else ())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(WorkerError):  # it is no candidate's fault, if it was noticed at all
        measure(WRONG)
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):
        measure(RIGHT)


# ------------------------------------------------------------------------------- the caller's end

LOOP = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from datetime import datetime, timezone
from solkit.core import Outcome
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure import Session

log = OutcomeLog(sys.argv[2])
print("ready", flush=True)
with Session(device="cpu") as session:
    while True:
        verdict = session.measure(sys.argv[1], {}, {}).verdict
        now = datetime.now(timezone.utc)
        log.append([Outcome("k", "f", "f", "file", "p", "d", {}, verdict, now, "default")])
        print("written", flush=True)
"""


HOLDING = """
def kernel(x):
    if os.path.exists({hold!r}):
        open({held!r}, "w").close()
        time.sleep(600)
    return x + 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_end_of_the_caller_leaves_a_whole_log_and_no_process(tmp_path, end):
    """Interrupted at any moment; or killed, of which it does not hear, in the middle of a call."""
    names = ("kernel.py", "log.jsonl", "hold", "held")
    kernel, store, hold, held = (tmp_path / name for name in names)
    kernel.write_text(HEAD + HOLDING.format(hold=str(hold), held=str(held)))
    command = [sys.executable, "-c", LOOP, str(kernel), str(store)]
    mark = uuid.uuid4().hex
    env = {**os.environ, MARK: mark}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=env, **pipes) as caller:
        results = [caller.stdout.readline() for _ in range(2)]
        if end == signal.SIGINT:
            time.sleep(random.uniform(0, 0.5))
        else:
            hold.touch()
            while not held.exists():
                assert caller.poll() is None
                time.sleep(0.01)
            assert len(marked(mark)) == 4  # itself, the server, and what that has forked
        caller.send_signal(end)
        results += caller.stdout.readlines()
    assert caller.returncode == -end
    assert wait_until_gone(mark)
    result, faults = read(store).rows, read(store).faults
    assert faults == ()
    written = results.count(b"written\n")
    assert 0 < written <= len(result) <= written + 1  # one may be written, but not told of yet
    assert {item.verdict for item in result} == {Verdict.WRONG}
