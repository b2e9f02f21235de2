"""The log: what is written is read again, whatever happened to the file."""

from __future__ import annotations

import errno
import gzip
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

import solkit
from solkit import userdata
from solkit.core import ComparedBase, Difference, LiveLaunch, Outcome, Ratio, StoredFacts, Verdict
from solkit.datasets import outcomelog
from solkit.datasets.identifiers import source_of
from solkit.datasets.outcomelog import OutcomeLog, read
from solkit.errors import InputError, TraceError

ROW = Outcome(
    "k", "softmax", "softmax", "zoo", "p", "h100-sxm", {}, Verdict.CORRECT,
    datetime(2026, 1, 1, tzinfo=timezone.utc), "random",
)  # fmt: skip
SOURCE = source_of(b"def kernel(): ...", "kernel.py")
FACTS = StoredFacts("f" * 32, '{"launches":[{"name":"k","share":0.1}]}')
KILLS = [12, pytest.param(50, marks=pytest.mark.slow)]
RESUME = pytest.mark.parametrize("resume", [False, True])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def numbered(first, count):
    return [replace(ROW, params={"n": n}) for n in range(first, first + count)]


def numbers(path):
    return [row.params["n"] for row in read(path).rows]


def places(path):
    return {(row.run_id, row.sequence) for row in read(path).rows}


def append(path, first, count):
    log = OutcomeLog(path)
    for n in range(first, first + count):
        log.append(numbered(n, 1))


# --------------------------------------------------------------------------- what comes back


@RESUME
def test_what_is_written_is_read_again(path, resume):
    with OutcomeLog(path, {"plan": "zoo"}, resume) as log:
        written = log.append(numbered(0, 2), [SOURCE], [FACTS])
        written += log.append(numbered(2, 1), [SOURCE], [FACTS], {("other", 7): FACTS.id})
    result = read(path)
    assert result.rows == written
    assert (result.sources, result.facts, result.faults) == ((SOURCE,), (FACTS,), ())
    assert result.facts_of == {("other", 7): FACTS.id}
    assert result.runs == {log.run_id: {"plan": "zoo"}}
    assert {row.run_id for row in result.rows} == {log.run_id} != {""}
    assert len(places(path)) == 3


def test_rows_come_back_with_all_their_types(path):
    full = replace(
        ROW,
        params={"a": 1, "b": "x", "c": True, "d": 0.1, "e": None, "f": "ü\n\u2028"},
        max_error=math.inf,
        facts_id=FACTS.id,
        evidence=("a\nb", "c"),
        live_launches=(LiveLaunch("k", (3, 2, 1), 4, constants={"BLOCK": 64}, registers=32),),
        comparison=ComparedBase(
            "base", {"n": 1}, Difference.FASTER, ratio=Ratio(0.5, 0.4, 0.6, 0.01, 20)
        ),
        compute_capability=(9, 0),
    )
    (written,) = OutcomeLog(path).append([full])
    assert read(path).rows == (written,)
    kinds = [type(value) for value in read(path).rows[0].params.values()]
    assert kinds == [int, str, bool, float, type(None), str]
    assert path.read_bytes().count(b"\n") == 2


def test_a_line_is_json_for_everybody(path):
    OutcomeLog(path).append([replace(ROW, max_error=math.inf, reference_ms=math.nan)])

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    header, row = (json.loads(line, parse_constant=refuse) for line in path.open())
    assert next(iter(header)) == "schema"
    assert (header["schema"], row["row"]["verdict"]) == (outcomelog.SCHEMA, "correct")
    assert (row["row"]["max_error"], row["row"]["reference_ms"]) == ("Infinity", "NaN")


def test_fields_of_later_versions_are_ignored(path):
    (written,) = OutcomeLog(path).append([ROW])
    header, row = map(json.loads, path.open())
    header["mood"] = row["mood"] = row["row"]["mood"] = "good"
    path.write_text(json.dumps(header) + "\n" + json.dumps(row))
    assert read(path).rows == (written,)


def test_a_gzipped_log_is_read_whatever_its_name(path, tmp_path):
    OutcomeLog(path).append(numbered(0, 2))
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert numbers(packed) == [0, 1]
    assert outcomelog.is_outcome_log(packed)
    noisy = gzip.compress(path.read_bytes() + random.Random(0).randbytes(9000))
    packed.write_bytes(noisy[:-4000])
    assert outcomelog.is_outcome_log(packed)  # though it was cut off
    with pytest.raises(InputError, match="packed"):
        read(packed)


def test_writing_needs_nothing_but_python():
    code = (
        "import sys; from solkit.datasets import outcomelog; "
        "heavy = 'torch numpy polars pyarrow pydantic'"
        "; print([name for name in heavy.split() if name in sys.modules])"
    )
    root = Path(solkit.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == "[]", done.stderr


# ------------------------------------------------------------------------------- runs, writers


def test_a_run_is_resumed_where_it_was_left(path):
    for first, plan in ((0, "a"), (2, "b")):
        with OutcomeLog(path, {"plan": plan}, resume=True) as log:
            log.append(numbered(first, 2), [SOURCE], [FACTS])
    result = read(path)
    assert (result.runs, numbers(path)) == ({log.run_id: {"plan": "a"}}, [0, 1, 2, 3])
    assert (len(result.sources), len(result.facts)) == (1, 1)
    assert len(places(path)) == 4
    assert {row.run_id for row in result.rows} == {log.run_id}


def test_a_resumed_run_has_one_writer(path):
    log = OutcomeLog(path, resume=True)
    with pytest.raises(InputError, match="another process writes this run"):
        OutcomeLog(path, resume=True)
    log.close()
    OutcomeLog(path, resume=True).close()


def test_others_that_append_to_a_resumed_run_are_told_and_not_held_up(path, monkeypatch):
    monkeypatch.setattr(outcomelog, "_PATIENCE_S", 0.05)
    other = OutcomeLog(path)
    with OutcomeLog(path, resume=True) as log:
        log.append(numbered(0, 1))
        with pytest.raises(TraceError, match="another process has locked it"):
            other.append(numbered(1, 1))
        with pytest.raises(InputError, match="another process writes this run"):
            OutcomeLog(path)
    other.append(numbered(2, 1))
    assert numbers(path) == [0, 2]
    assert len(read(path).runs) == 2
    with pytest.raises(InputError, match="holds 2 runs; only a single one"):
        OutcomeLog(path, resume=True)


def test_what_others_appended_is_not_written_again_and_no_number_is_given_twice(path):
    first, second = OutcomeLog(path), OutcomeLog(path)
    first.append(numbered(0, 1), [SOURCE])
    second.append(numbered(1, 1), [SOURCE], [FACTS])
    first.append(numbered(2, 1), [SOURCE], [FACTS])
    result = read(path)
    assert (len(result.runs), result.sources, result.facts) == (2, (SOURCE,), (FACTS,))
    assert len({row.sequence for row in result.rows}) == 3


def test_a_file_that_was_moved_away_meanwhile_is_begun_anew(path):
    log = OutcomeLog(path)
    log.append(numbered(0, 1), [SOURCE])
    path.rename(path.with_name("kept.jsonl"))
    log.append(numbered(1, 1), [SOURCE])
    assert (numbers(path), read(path).sources) == ([1], (SOURCE,))


@pytest.fixture
def appending():
    """Start a process that appends so many rows to a file; it is killed in the end."""
    started = []

    def start(path, first, count):
        context = multiprocessing.get_context("fork")
        started.append(context.Process(target=append, args=(path, first, count)))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.join()


@pytest.mark.slow
def test_many_processes_and_threads_append_to_one_file(path, appending):
    children = [appending(path, 1000 * i, 20) for i in range(3)]
    log = OutcomeLog(path)

    def work(first):
        for n in range(first, first + 20):
            log.append(numbered(n, 1))

    threads = [threading.Thread(target=work, args=(first,)) for first in (5000, 6000)]
    for thread in threads:
        thread.start()
    for item in (*threads, *children):
        item.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    results = numbers(path)
    for first in (0, 1000, 2000, 5000, 6000):  # all are there, each in its order
        assert [n for n in results if first <= n < first + 1000] == list(range(first, first + 20))
    assert len(places(path)) == 100
    assert len(read(path).runs) == 4


# ------------------------------------------------------------------------------ damaged files


@RESUME
def test_a_file_cut_off_anywhere_loses_no_earlier_row_and_goes_on(tmp_path, resume):
    whole = tmp_path / "whole.jsonl"
    with OutcomeLog(whole, resume=resume) as log:
        log.append(numbered(0, 1), [SOURCE])
        safe = whole.stat().st_size
        log.append(numbered(1, 1))
    data = whole.read_bytes()
    for size in (0, 1, 30, *range(safe, len(data), 37), len(data) - 1):
        cut = tmp_path / f"cut{size}.jsonl"
        cut.write_bytes(data[:size])
        with OutcomeLog(cut, resume=resume) as log:
            log.append(numbered(9, 1), [SOURCE])
        expected = [0, 1, 9] if size >= len(data) - 1 else [0, 9] if size >= safe else [9]
        result = read(cut)
        assert numbers(cut) == expected
        assert result.sources == (SOURCE,)
        assert len(result.faults) == (safe < size < len(data) - 1)
        assert len(places(cut)) == len(result.rows)


def test_a_line_that_was_cut_off_is_reported_by_its_number(path):
    OutcomeLog(path).append(numbered(0, 1))
    with path.open("a") as file:
        file.write('{"row":{"kernel')
    assert read(path).faults == (f"{path}:3: the line is cut off: 15 bytes that are not JSON",)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"row":{"kernel_id":5}}', "kernel_id: expected str, not 5"),
        ('{"facts":{"id":"x"}}', "'value' is missing"),
        ('{"facts_of":{"run_id":"x","facts_id":"f"}}', "'sequence' is missing"),
        ('{"schema":"solkit.run/3"}', "unknown line: solkit.run/3 is newer than"),
        ('{"schema":"solkit.run/1"}', "unknown line: solkit.run/1 is older than solkit.run/2"),
        ('{"schema":"solkit.score/1"}', "unknown line: schema is 'solkit.score/1'"),
        ('{"else":1}', "unknown line: schema is None"),
        ("[1]", "unknown line: schema is None"),
        ("\0\0\0\0", "the line is damaged: 5 bytes that are not JSON"),
        ("\xff\xfe", "the line is damaged"),
    ],
)
def test_a_line_that_holds_nothing_is_reported_and_costs_no_other(path, line, fault):
    log = OutcomeLog(path)
    log.append(numbered(0, 1))
    with path.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n\n")
    log.append(numbered(1, 1))
    assert numbers(path) == [0, 1]
    (reported_fault,) = read(path).faults
    assert reported_fault.startswith(f"{path}:3: {fault}")


# ------------------------------------------------------------------------- full disks, interrupts


@RESUME
def test_a_full_disk_takes_back_the_batch(path, monkeypatch, resume):
    write = os.write

    def half(file, data):
        write(file, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with OutcomeLog(path, resume=resume) as log:
        log.append(numbered(0, 2))
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(TraceError, match=r"2 rows could .*run\.jsonl: No space left"):
                log.append(numbered(2, 2), [SOURCE])
        assert path.read_bytes().rstrip() == before.rstrip()
        log.append(numbered(2, 2), [SOURCE])
    assert numbers(path) == [0, 1, 2, 3]
    assert read(path).sources == (SOURCE,)


def test_a_disk_that_takes_a_batch_in_pieces(path, monkeypatch):
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:100]))
        OutcomeLog(path).append(numbered(0, 2))
    assert numbers(path) == [0, 1]


@RESUME
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_an_interrupt_takes_back_the_batch(path, monkeypatch, call, resume):
    """Or the next batch would have its numbers, and of rows that share them one is lost."""
    done = getattr(os, call)

    def interrupted(*arguments):
        done(*arguments)
        raise KeyboardInterrupt

    with OutcomeLog(path, resume=resume) as log:
        log.append(numbered(0, 1))
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, call, interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(numbered(1, 2), [SOURCE])
        assert path.read_bytes().rstrip() == before.rstrip()
        log.append(numbered(3, 2), [SOURCE])
    result = read(path)
    assert (numbers(path), result.sources) == ([0, 3, 4], (SOURCE,))
    # a source at 2 and rows at 3 and 4 were taken back: who read them meanwhile keeps them apart
    assert [row.sequence for row in result.rows] == [1, 6, 7]


def test_a_file_system_that_is_really_full(path):
    """A limit on the file's size: the system itself writes half of a batch and then refuses."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with OutcomeLog(path, resume=True) as log:
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
    OutcomeLog(path).append(numbered(3 * batches, 1))
    assert read(path).faults == ()


def _write_until_killed(path, report, resume):
    """Batches of three rows, each told to `report` when it is on disk."""
    with OutcomeLog(path, resume=resume) as log:
        first = max(numbers(path), default=-1) + 1 if path.stat().st_size else 0
        while True:
            log.append(numbered(first, 3), [source_of(str(first).encode(), "x.py")])
            first += 3
            os.write(report, f"{first}\n".encode())


@pytest.mark.slow
@RESUME
@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_random_moments_no_row_is_lost_or_doubled(path, resume, kills):
    chance, committed = random.Random(6), 0
    for _ in range(kills // 2):
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _write_until_killed(path, sender, resume)
            finally:
                os._exit(1)
        os.close(sender)
        with os.fdopen(receiver) as result:
            for _ in range(chance.randrange(4)):  # so that some are on disk, on any machine
                committed = int(result.readline())
            time.sleep(chance.uniform(0.0, 0.004))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status)
            committed = max([committed, *map(int, result.read().split())])
    results = numbers(path)
    assert committed > 0
    assert results == list(range(len(results)))
    assert len(results) >= committed
    assert len(places(path)) == len(results)


# ------------------------------------------------------------------------------ which files


def test_an_empty_file_is_a_log_that_holds_nothing(path):
    path.touch()
    assert read(path) == outcomelog.Contents()


@pytest.mark.parametrize("text", ["{", "a,b\n1,2\n", "[]\n", '{"schema":"solkit.run/3"}\n'])
def test_other_files_are_not_read(path, text):
    path.write_text(text)
    with pytest.raises(InputError, match=r"run\.jsonl is not a log"):
        read(path)
    assert not outcomelog.is_outcome_log(path)


@RESUME
@pytest.mark.parametrize("text", ["a,b\n1,2\n", "notes", "import torch\n", "{}\n"])
def test_other_files_are_not_written_to(path, text, resume):
    path.write_text(text)
    with pytest.raises(InputError, match="is not a log"):
        OutcomeLog(path, resume=resume)
    assert path.read_text() == text


def test_what_was_tried_in_short_is_no_log_to_append_to(path):
    path.write_text(outcomelog.log_of_tried([replace(ROW, run_id="r", sequence=3)]))
    assert not outcomelog.is_outcome_log(path)
    assert places(path) == {("r", 3)}
    for resume in (False, True):
        with pytest.raises(InputError, match="for `solkit data collect --after`"):
            OutcomeLog(path, resume=resume)
    with pytest.raises(InputError, match="for `solkit data collect --after`"):
        read(path, whole=True)


def test_a_path_that_cannot_be_written_or_read_is_told_at_once(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*: No such file or directory"):
        OutcomeLog(tmp_path / "no" / "folder.jsonl")
    with pytest.raises(InputError, match="Is a directory"):
        OutcomeLog(tmp_path)
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        read(tmp_path / "none.jsonl")
    assert not outcomelog.is_outcome_log(tmp_path)


def test_outcomes_may_be_thrown_away():
    OutcomeLog("/dev/null").append([ROW], [SOURCE])
    assert Path("/dev/null").is_char_device()  # still: no file was put in its place


def test_the_default_is_this_months_file_in_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SOLKIT_TRACES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    log = OutcomeLog()
    month = datetime.now(timezone.utc).strftime("%Y-%m")
    assert log.path == tmp_path / "solkit" / "traces" / f"{month}.jsonl"
    assert log.path.exists()
    monkeypatch.setenv("SOLKIT_TRACES", str(tmp_path / "elsewhere"))
    assert OutcomeLog().path.parent == tmp_path / "elsewhere"


def test_a_relative_data_home_counts_as_none(monkeypatch):
    monkeypatch.delenv("SOLKIT_TRACES")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert userdata.folder("traces", "SOLKIT_TRACES") == Path.home() / ".local/share/solkit/traces"
