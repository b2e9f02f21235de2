from __future__ import annotations

import errno
import gzip
import os
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

import solkit
from solkit.core import Verdict
from solkit.datasets import runlog
from solkit.datasets.record import TimedConfiguration, source_of
from solkit.errors import InputError, TraceError

ROW = TimedConfiguration(
    "k", "softmax", "softmax", "zoo", "p", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random",
)  # fmt: skip
SOURCE = source_of(b"def kernel(): ...", "kernel.py")
KILLS = 50


def numbered(first, count):
    return [replace(ROW, params={"n": n}) for n in range(first, first + count)]


def numbers(path):
    return [row.params["n"] for row in runlog.read(path).rows]


def test_rows_and_sources_come_back_numbered(tmp_path):
    path = tmp_path / "run.jsonl"
    with runlog.RunLog(path, {"plan": "zoo"}) as log:
        written = log.append(numbered(0, 2), [SOURCE])
        written += log.append(numbered(2, 1), [SOURCE])
    run = runlog.read(path)
    assert run.rows == written
    assert (run.sources, run.faults, run.about) == ((SOURCE,), (), {"plan": "zoo"})
    assert {row.run_id for row in run.rows} == {run.run_id} != {""}
    assert len({row.sequence for row in run.rows}) == 3


def test_a_run_goes_on_where_it_was_left(tmp_path):
    path = tmp_path / "run.jsonl"
    with runlog.RunLog(path, {"plan": "a"}) as log:
        log.append(numbered(0, 2), [SOURCE])
    with runlog.RunLog(path, {"plan": "b"}) as log:
        log.append(numbered(2, 2), [SOURCE])
    run = runlog.read(path)
    assert (run.about, numbers(path), len(run.sources)) == ({"plan": "a"}, [0, 1, 2, 3], 1)
    assert len({row.sequence for row in run.rows}) == 4
    assert len({row.run_id for row in run.rows}) == 1


def test_a_run_has_one_writer(tmp_path):
    log = runlog.RunLog(tmp_path / "run.jsonl")
    with pytest.raises(InputError, match="another process writes this run"):
        runlog.RunLog(tmp_path / "run.jsonl")
    log.close()
    runlog.RunLog(tmp_path / "run.jsonl").close()


@pytest.mark.parametrize("text", ["", "{", '{"schema":"solkit.trace/1"}\n', "a,b\n1,2\n", "[]\n"])
def test_other_files_are_not_read(tmp_path, text):
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=r"other\.jsonl is no run's file"):
        runlog.read(path)


@pytest.mark.parametrize("text", ['{"schema":"solkit.trace/1"}\n', "a,b\n1,2\n", "notes"])
def test_other_files_are_not_written_to(tmp_path, text):
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match="is no run's file"):
        runlog.RunLog(path)
    assert path.read_text() == text


def test_a_file_cut_off_anywhere_loses_no_earlier_row_and_goes_on(tmp_path):
    whole = tmp_path / "whole.jsonl"
    with runlog.RunLog(whole) as log:
        log.append(numbered(0, 1), [SOURCE])
        safe = whole.stat().st_size
        log.append(numbered(1, 1))
    data = whole.read_bytes()
    for size in (0, 1, 30, *range(safe, len(data), 37), len(data) - 1):
        cut = tmp_path / f"cut{size}.jsonl"
        cut.write_bytes(data[:size])
        with runlog.RunLog(cut) as log:
            log.append(numbered(9, 1), [SOURCE])
        expected = [0, 1, 9] if size >= len(data) - 1 else [0, 9] if size >= safe else [9]
        run = runlog.read(cut)
        assert numbers(cut) == expected
        assert run.sources == (SOURCE,)
        assert len(run.faults) == (safe < size < len(data) - 1)
        assert len({row.sequence for row in run.rows}) == len(run.rows)


def test_a_line_that_was_cut_off_is_told_by_its_number(tmp_path):
    path = tmp_path / "run.jsonl"
    with runlog.RunLog(path) as log:
        log.append(numbered(0, 1))
    with path.open("a") as file:
        file.write('{"row":{"kernel')
    assert runlog.read(path).faults == (
        f"{path}:3: the line is cut off: 15 bytes that are no JSON",
    )
    with path.open("a") as file:
        file.write('\n{"row":{"kernel_id":5}}\n{"else":1}\n')
    faults = runlog.read(path).faults
    assert [fault.split(": ", 1)[1] for fault in faults[1:]] == [
        "kernel_id: expected str, not 5",
        "holds neither a row nor a source",
    ]


def test_a_disk_that_fills_up_takes_back_the_batch(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    write = os.write

    def half(file, data):
        write(file, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with runlog.RunLog(path) as log:
        log.append(numbered(0, 2))
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(TraceError, match=r"run\.jsonl: No space left"):
                log.append(numbered(2, 2), [SOURCE])
        assert path.read_bytes().rstrip() == before.rstrip()
        log.append(numbered(2, 2), [SOURCE])
    assert numbers(path) == [0, 1, 2, 3]
    assert runlog.read(path).sources == (SOURCE,)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_an_interrupt_takes_back_the_batch(tmp_path, monkeypatch, call):
    """Or what is written next would have its numbers: of rows that share them one is lost."""
    path = tmp_path / "run.jsonl"
    done = getattr(os, call)

    def interrupted(*given):
        done(*given)
        raise KeyboardInterrupt

    with runlog.RunLog(path) as log:
        log.append(numbered(0, 1))
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, call, interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(numbered(1, 2), [SOURCE])
        assert path.read_bytes().rstrip() == before.rstrip()
        log.append(numbered(3, 2), [SOURCE])
    with runlog.RunLog(path) as log:
        log.append(numbered(5, 1))
    run = runlog.read(path)
    assert (numbers(path), run.sources) == ([0, 3, 4, 5], (SOURCE,))
    # a source at 2 and rows at 3 and 4 were taken back: who read them meanwhile keeps them apart
    assert [row.sequence for row in run.rows] == [1, 6, 7, 8]


def test_a_file_system_that_is_really_full(tmp_path):
    """A limit on the file's size: the system itself writes half of a batch and then refuses."""
    path = tmp_path / "run.jsonl"
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with runlog.RunLog(path) as log:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            batch = 0
            try:
                for batch in range(1000):
                    log.append(numbered(3 * batch, 3))
            except TraceError:
                os._exit(batch)
        os._exit(255)
    batches = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert 2 < batches < 250
    assert numbers(path) == list(range(3 * batches))
    with runlog.RunLog(path) as log:
        log.append(numbered(3 * batches, 1))
    assert runlog.read(path).faults == ()


def _write_until_killed(path, report):
    """Batches of three rows, each told to `report` when it is on disk."""
    with runlog.RunLog(path) as log:
        first = max(numbers(path), default=-1) + 1
        while True:
            log.append(numbered(first, 3), [source_of(str(first).encode(), "x.py")])
            first += 3
            os.write(report, f"{first}\n".encode())


def test_killed_at_random_moments_no_row_is_lost_or_doubled(tmp_path):
    path, chance, committed = tmp_path / "run.jsonl", random.Random(6), 0
    for _ in range(KILLS):
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _write_until_killed(path, sender)
            finally:
                os._exit(1)
        os.close(sender)
        with os.fdopen(receiver) as told:
            for _ in range(chance.randrange(4)):  # so that some are on disk, on any machine
                committed = int(told.readline())
            time.sleep(chance.uniform(0.0, 0.004))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status)
            committed = max([committed, *map(int, told.read().split())])
    found = numbers(path)
    assert committed > 0
    assert found == list(range(len(found)))
    assert len(found) >= committed
    rows = runlog.read(path).rows
    assert len({row.sequence for row in rows}) == len(rows)


def test_writing_needs_nothing_but_python():
    code = (
        "import sys; from solkit.datasets import runlog; "
        "heavy = 'torch numpy polars pyarrow pydantic'"
        "; print([name for name in heavy.split() if name in sys.modules])"
    )
    root = Path(solkit.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_run_is_told_by_how_it_begins(tmp_path):
    path = tmp_path / "run.jsonl.gz"  # whatever its name
    with runlog.RunLog(path) as log:
        log.append(numbered(0, 2))
    assert numbers(path) == [0, 1]
    assert runlog.is_run(path)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes() + random.Random(0).randbytes(9000))[:-4000])
    assert runlog.is_run(packed)  # though it was cut off
    with pytest.raises(InputError, match="packed"):
        runlog.read(packed)
    short = tmp_path / "tried.jsonl"
    short.write_text(runlog.tried(runlog.read(path).rows))
    assert not runlog.is_run(short)
    assert not runlog.is_run(tmp_path / "none")
    assert not runlog.is_run(tmp_path)
