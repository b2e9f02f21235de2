"""Twenty faults in a batch: it finishes with the same winners; nothing is lost or counted twice.

A fault that ends a batch is followed by ``--resume``, on a new bench, as a user would do.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import recorded_batch as recorded
import spaces

import solkit
from solkit.core import BatchSettings, TuneVerdict, Verdict, canonical
from solkit.datasets import outcomelog
from solkit.errors import GpuBusyError, TraceError, WorkerError
from solkit.measure.benches import RecordedBench
from solkit.tuner.database import Database
from solkit.tuner.tuning_results import results_of_runs

MINUTES = 3.0
GPU_ERROR = "CUDA error: an illegal memory access was encountered"


class FaultyBench(RecordedBench):
    """A recorded bench where something happens to chosen outcomes or submissions.

    Args:
        at: outcomes, counted from 1, before which `fault` happens.
        fault: raises, or returns the outcomes to report in place of the one due.
        submitting: submissions, counted from 1, at which it raises instead.
    """

    def __init__(self, at=(), fault=None, submitting=(), rows=None):
        super().__init__(recorded.rows() if rows is None else rows, cores=4)
        self.at, self.fault, self.submitting = set(at), fault, set(submitting)
        self.heard = self.submitted = 0

    def submit(self, configurations):
        self.submitted += 1
        if self.submitted in self.submitting:
            self.fault(None, None)
        super().submit(configurations)

    def outcomes(self, until_s=None):
        for configuration, outcome in super().outcomes(until_s):
            self.heard += 1
            due = [outcome]
            if self.heard in self.at:
                due = self.fault(configuration, outcome)
            for item in due:
                yield configuration, item


def raising(error):
    def fault(*_):
        raise error

    return fault


@pytest.fixture(scope="module")
def winners():
    result = solkit.batch(recorded.manifest(), gpu_minutes=MINUTES, bench=recorded.bench())
    pairs = [(item.tuned.verdict, dict(item.tuned.params)) for item in result.items]
    assert pairs == [(TuneVerdict.FASTER, spaces.BEST)] * 2 + [(TuneVerdict.KEEP, spaces.DEFAULT)]
    return pairs


@pytest.fixture
def run(tmp_path):
    def run(bench, resume=False, **fields):
        settings = BatchSettings(log=tmp_path / "run.jsonl", resume=resume, **fields)
        return solkit.batch(
            recorded.manifest(), gpu_minutes=MINUTES, bench=bench, settings=settings
        )

    run.log = tmp_path / "run.jsonl"
    return run


def check(result, winners, log):
    """The same winners; the log has each outcome once, and says the same."""
    assert [
        (outcome.tuned.verdict, dict(outcome.tuned.params)) for outcome in result.items
    ] == winners
    rows = outcomelog.read(log).rows
    searched = [row for row in rows if row.comparison is None]
    of = Counter((row.kernel_id, row.problem_id, *_identity(row)) for row in searched)
    assert set(of.values()) == {1}
    for item in result.items:
        tuned = item.tuned
        mine = [row for row in searched if (row.kernel_id, row.problem_id) == _key(tuned)]
        assert len({canonical(row.params) for row in mine}) == tuned.measured
    read_back = {
        (e.key.kernel_id, e.key.problem_id): e.chosen.params for e in results_of_runs(rows)
    }
    assert read_back == {_key(e.tuned): e.tuned.params for e in result.items}


def _key(tuned):
    return tuned.kernel_id, tuned.problem_id


def _identity(row):
    return canonical(row.params), row.created, row.verdict, row.samples_ms


# ------------------------------------------------------------------------ faults that it survives

BUSY = GpuBusyError("another SolKit holds the GPU")
KILLED = WorkerError("a worker ended: killed by SIGKILL")
SURVIVED = {
    "a worker is killed before anything is measured": {"at": [1], "fault": raising(KILLED)},
    "a worker is killed in the search": {"at": [9], "fault": raising(KILLED)},
    "workers are killed again and again": {"at": range(5, 60, 9), "fault": raising(KILLED)},
    "a worker is killed while it takes work": {"submitting": [7], "fault": raising(KILLED)},
    "a GPU error, three times in a row": {
        "at": [12, 13, 14],
        "fault": raising(WorkerError(GPU_ERROR)),
    },
    "the GPU is taken for a while": {"at": [3, 4, 20], "fault": raising(BUSY)},
}


@pytest.mark.quick("killed before")
@pytest.mark.parametrize("name", SURVIVED)
def test_it_goes_on(run, winners, name):
    result = run(FaultyBench(**SURVIVED[name]))
    check(result, winners, run.log)
    assert any("was taken up again" in note for note in result.notes)


def test_an_outcome_that_is_reported_twice_counts_once(run, winners):
    result = run(FaultyBench(at=range(1, 30, 3), fault=lambda _, outcome: [outcome, outcome]))
    check(result, winners, run.log)


@pytest.mark.slow
def test_a_gpu_error_in_the_finals(run, winners):
    class InTheFinals(FaultyBench):
        def submit(self, configurations):
            is_final = len(configurations) == 2 and configurations[0].chosen_by == "repeat"
            if is_final and not self.at:
                self.at = {self.heard + 1}
            super().submit(configurations)

    bench = InTheFinals(fault=raising(WorkerError(GPU_ERROR)))
    result = run(bench)
    check(result, winners, run.log)
    assert bench.at, "no final was submitted"
    assert bench.heard >= max(bench.at)


@pytest.mark.slow
def test_a_configuration_that_ends_its_process(run, winners):
    def crashed(configuration, outcome):
        assert configuration.params != spaces.BEST
        died = spaces.failed(outcome, Verdict.CRASHED)
        return [died]

    result = run(FaultyBench(at=[4], fault=crashed))
    check(result, winners, run.log)
    assert sum(item.tuned.failed for item in result.items) >= 1


@pytest.mark.slow
def test_memory_that_somebody_else_has_for_a_while(run, winners):
    def crowded(_, outcome):
        return [spaces.failed(outcome, Verdict.NOT_MEASURED)]

    result = run(FaultyBench(at=[1, 6, 11], fault=crowded))
    assert [(e.tuned.verdict, dict(e.tuned.params)) for e in result.items] == winners
    verdicts = Counter(row.verdict for row in outcomelog.read(run.log).rows)
    assert verdicts[Verdict.NOT_MEASURED] == 3


@pytest.mark.slow
def test_a_clock_that_is_set_back_and_forth(run, winners):
    days = iter([400, -800, 3000, 0, -1] * 100)
    rows = [
        replace(row, created=row.created + timedelta(days=next(days)))
        for row in recorded.rows()[:300]
    ] + recorded.rows()[300:]
    result = run(FaultyBench(rows=rows))
    assert [(e.tuned.verdict, dict(e.tuned.params)) for e in result.items] == winners


# --------------------------------------------------------------------------------- disks and files


def full(monkeypatch, times):
    """The next `times` writes of rows find no space."""
    outcome, write = [times], os.write

    def failing(file, data):
        if b'"row"' in bytes(data) and outcome[0] > 0:
            outcome[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", failing)
    return outcome


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_moment(run, winners, monkeypatch):
    remaining_full = full(monkeypatch, 2)
    result = run(FaultyBench())
    assert remaining_full == [0]
    monkeypatch.undo()
    check(result, winners, run.log)


@pytest.mark.slow
def test_a_disk_that_stays_full_ends_the_batch_and_resume_finishes_it(run, winners, monkeypatch):
    written = [0]
    append = outcomelog.OutcomeLog.append

    def appended(log, *arguments, **more):
        written[0] += 1
        if written[0] > 15:
            raise TraceError(f"1 rows could not be written to {log.path}: No space left on device")
        return append(log, *arguments, **more)

    monkeypatch.setattr(outcomelog.OutcomeLog, "append", appended)
    with pytest.raises(TraceError, match="No space left"):
        run(FaultyBench())
    assert len(outcomelog.read(run.log).rows) == 15
    monkeypatch.undo()
    check(run(FaultyBench(), resume=True), winners, run.log)


@pytest.mark.slow
def test_a_machine_that_stops_in_the_middle_of_a_line(run, winners):
    with pytest.raises(WorkerError):
        run(FaultyBench(at=range(30, 300), fault=raising(KILLED)))
    with run.log.open("r+b") as file:
        file.truncate(run.log.stat().st_size - 100)
    result = run(FaultyBench(), resume=True)
    check(result, winners, run.log)


# --------------------------------------------------------------------------------------- the ends


@pytest.mark.slow
@pytest.mark.parametrize("at", [2, 25])
def test_a_head_that_is_lost_ends_the_batch_and_resume_finishes_it(run, winners, at):
    lost = WorkerError("the cluster's head is lost")
    with pytest.raises(WorkerError, match="head is lost"):
        run(FaultyBench(at=range(at, 500), fault=raising(lost)))
    assert len(outcomelog.read(run.log).rows) == at - 1
    check(run(FaultyBench(), resume=True), winners, run.log)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 20])
def test_ctrl_c_in_the_search(run, winners, at):
    result = run(FaultyBench(at=[at], fault=raising(KeyboardInterrupt())))
    assert result.interrupted
    assert len(result.items) == 3
    again = run(FaultyBench(), resume=True)
    check(again, winners, run.log)
    assert not again.interrupted


@pytest.mark.slow
def test_ctrl_c_in_the_finals(run, winners):
    class InTheFinals(FaultyBench):
        def submit(self, configurations):
            if len(configurations) == 2 and configurations[0].chosen_by == "repeat":
                raise KeyboardInterrupt
            super().submit(configurations)

    result = run(InTheFinals())
    assert result.interrupted
    assert {item.tuned.verdict for item in result.items} == {TuneVerdict.KEEP}
    assert "winners without one are not used" in " ".join(result.notes)
    check(run(FaultyBench(), resume=True), winners, run.log)


# --------------------------------------------------------------------------------------- database


class GoneDatabase(Database):
    """A server that does not answer."""

    def __init__(self, place, reads=False, writes=False, full=False):
        super().__init__(place)
        self.reads, self.writes, self.full = reads or full, writes, full

    def add(self, *arguments):
        if self.full:
            raise TraceError("9 rows could not be written: No space left on device")
        if not self.writes:
            raise ConnectionError("server closed the connection unexpectedly")
        return super().add(*arguments)

    def known(self, *arguments):
        if not self.reads:
            raise ConnectionError("could not connect to server")
        return super().known(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    "works",
    [{}, {"reads": True}, {"writes": True}, {"full": True}],
    ids=["gone", "gone later", "back later", "full"],
)
def test_a_database_that_is_gone_costs_nothing(run, winners, monkeypatch, tmp_path, works):
    place = tmp_path / "tuned"
    monkeypatch.setattr(
        "solkit.tuner.database.Database", lambda place: GoneDatabase(place, **works)
    )
    result = run(FaultyBench(), database=place)
    check(result, winners, run.log)
    assert any("database" in note for note in result.notes)
    monkeypatch.undo()
    database = Database(place)
    database.merge(run.log)
    database.merge(run.log)
    assert len(list(database.place.rows_of())) == len(outcomelog.read(run.log).rows)
