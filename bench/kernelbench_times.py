"""Time KernelBench's references on this machine's GPU: eager and compiled, with and without tf32.

    python bench/kernelbench_times.py KERNELBENCH --out DIR --minutes 8 [--levels 1 2]

Appends one JSON line per problem and variant to ``DIR/times.jsonl``, on disk before the next is
begun, so that a run may be cut at any moment: the next run with the same ``--out`` goes on where
that one ended. A problem that fails has rows too, which say how (``--again`` tries them once
more). `kernelbench_dataset` makes a table of these lines.

``--workers`` processes compile at the same time; on the GPU they take turns (`kernelbench_gpu`).
Exits with 1 where something was left to do and nothing could be timed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from kernelbench_suite import (
    OK,
    SAME_AS_DEFAULT,
    VARIANTS,
    Failure,
    Job,
    Problem,
    Row,
    find_problems,
)

from solkit.core import Verdict

FILE = "times.jsonl"
_NO_NEW_JOB_S = 30.0  # before the end: what a job takes, about
_JOB_LIMIT_S = 180.0
_START_LIMIT_S = 120.0


class Journal:
    """The lines of ``times.jsonl``: of a run, then those of its problems.

    Args:
        path: the file; made where there is none, else added to.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines = read_lines(path)
        _drop_torn_line(path)
        self._file = path.open("a", encoding="utf-8")

    def append(self, line: Row) -> None:
        """Add a line; it is on disk when this returns."""
        self.lines.append(line)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_lines(path: Path) -> list[Row]:
    """The whole lines of a journal; a last one that was cut short is left out."""
    if not path.exists():
        return []
    whole, _, _torn = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        whole, newline, torn = path.read_bytes().rpartition(b"\n")
        if torn:
            path.write_bytes(whole + newline)


def jobs_left(
    problems: Iterable[Problem], lines: Iterable[Row], device: str, again: bool
) -> list[Job]:
    """What a device has no rows for yet.

    Args:
        problems: all that are wanted.
        lines: of the journal.
        device: its name; another device's rows do not count.
        again: whether rows of failures do not count either.
    """
    done = {
        (line["sha256"], line["variant"])
        for line in lines
        if line["kind"] == "time" and line["device"] == device
        if not again or line["status"] in (OK, SAME_AS_DEFAULT)
    }
    left = {p: tuple(v for v in VARIANTS if (p.sha256, v) not in done) for p in problems}
    return [Job(problem, variants) for problem, variants in left.items() if variants]


def after_failure(job: Job, failure: Failure) -> Job | None:
    """What to try once more after a job failed: ``None`` where that was its last chance.

    Lack of memory may be the others' doing; a process that died may have died of compiling.
    """
    if failure.verdict is Verdict.OUT_OF_MEMORY:
        return None if job.alone else replace(job, alone=True)
    return None if job.compile_failure else replace(job, compile_failure=failure)


@dataclass
class Worker:
    """A process that answers jobs."""

    process: BaseProcess
    pipe: Connection
    since: float
    limit_s: float
    job: Job | None = None
    ready: bool = False

    @property
    def overdue(self) -> bool:
        """Whether what it does takes too long."""
        return (self.job is not None or not self.ready) and (
            time.monotonic() - self.since > self.limit_s
        )

    def give(self, job: Job) -> None:
        """Hand it a job."""
        self.job, self.since, self.limit_s = job, time.monotonic(), _JOB_LIMIT_S
        self.pipe.send(job)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass
class Run:
    """One run: what is left, who works on it, and until when.

    Attributes:
        journal: where rows go.
        problems: all that are wanted.
        workers: how many processes.
        deadline: on the clock of `time.monotonic`.
        again: as for `jobs_left`.
        lock: the file of the `kernelbench_gpu.Turn`.
        work: `kernelbench_gpu.work`, run in each process.
        run: when this run began, its name in the journal.
        device: the GPU's name, once a worker has told.
        queue: jobs that nobody works on.
        crew: the processes that live.
    """

    journal: Journal
    problems: Sequence[Problem]
    workers: int
    deadline: float
    again: bool
    lock: Path
    work: Callable[[Connection, Path], None]
    run: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat("T", "seconds"))
    device: str = ""
    queue: deque[Job] = field(default_factory=deque)
    crew: list[Worker] = field(default_factory=list)

    def __call__(self) -> None:
        """Work until all is done or the time is up."""
        self.crew = [self._hire() for _ in range(self.workers)]
        try:
            while self.crew and time.monotonic() < self.deadline:
                self._step()
        finally:
            for worker in self.crew:
                worker.end()

    def _step(self) -> None:
        by_pipe = {worker.pipe: worker for worker in self.crew}
        for pipe in wait(list(by_pipe), timeout=1.0):
            self._hear(by_pipe[pipe])  # type: ignore[index]
        for worker in [w for w in self.crew if w.overdue]:
            message = f"took over {worker.limit_s:.0f} s"
            self._lost(worker, Failure(Verdict.TIMED_OUT, message))
        self._assign()

    def _assign(self) -> None:
        late = time.monotonic() > self.deadline - _NO_NEW_JOB_S
        busy = sum(worker.job is not None for worker in self.crew)
        for worker in [w for w in self.crew if w.ready and w.job is None]:
            job = None if late else self._next(busy)
            if job is not None:
                worker.give(job)
                busy += 1
            elif late or not (busy or self.queue):
                self._dismiss(worker)

    def _next(self, busy: int) -> Job | None:
        """The next job; those that want the GPU alone wait for the others to be done."""
        if not self.queue or (busy and self.queue[0].alone):
            return None
        if any(worker.job is not None and worker.job.alone for worker in self.crew):
            return None
        return self.queue.popleft()

    def _hear(self, worker: Worker) -> None:
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(1.0)
            message = f"exit code {worker.process.exitcode}"
            self._lost(worker, Failure(Verdict.CRASHED, message))
            return
        if kind == "ready":
            worker.ready = True
            self._begin(content)
        elif kind == "row":
            self._write(worker, content)
        elif kind == "ended":
            self._lost(worker, content)
        else:
            job, worker.job = worker.job, None
            if kind == "failed" and job is not None:
                self._failed(job, content)

    def _begin(self, environment: Row) -> None:
        """The first worker that is ready tells which device this is."""
        if self.device:
            return
        self.device = environment["device"]
        self.journal.append({"kind": "run", "run": self.run, **environment})
        self.queue.extend(jobs_left(self.problems, self.journal.lines, self.device, self.again))
        print(f"{self.device}: {len(self.queue)} of {len(self.problems)} problems to do")

    def _write(self, worker: Worker, row: Row) -> None:
        assert worker.job is not None
        self._append(worker.job.problem, row)
        variants = tuple(v for v in worker.job.variants if v != row["variant"])
        worker.job = replace(worker.job, variants=variants)

    def _append(self, problem: Problem, row: Row) -> None:
        key: dict[str, Any] = {
            "kind": "time",
            "run": self.run,
            "device": self.device,
            "level": problem.level,
            "number": problem.number,
            "name": problem.name,
            "sha256": problem.sha256,
        }
        self.journal.append({**key, **row})
        time_ms = f"{row['median_ms']:.4f} ms" if row["status"] == OK else row["status"]
        print(f"{problem.label} {row['variant']}: {time_ms}", flush=True)

    def _failed(self, job: Job, failure: Failure) -> None:
        if not job.variants:
            return
        print(f"{job.problem.label} failed: {failure.verdict.value}: {failure.message}", flush=True)
        next_try = after_failure(job, failure)
        if next_try is not None:
            self.queue.append(next_try)
            return
        for variant in job.variants:
            self._append(job.problem, {"variant": variant, **failure.row()})

    def _lost(self, worker: Worker, failure: Failure) -> None:
        """A worker that died or hangs; another takes its place, unless it never got ready."""
        worker.end()
        self.crew.remove(worker)
        if worker.job is not None:
            self._failed(worker.job, failure)
        if worker.ready:
            self.crew.append(self._hire())
        else:
            print(f"a worker never got ready: {failure.message}", file=sys.stderr)

    def _dismiss(self, worker: Worker) -> None:
        worker.end()
        self.crew.remove(worker)

    def _hire(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self.work, args=(theirs, self.lock), daemon=True)
        process.start()
        theirs.close()  # or we would not hear of its death
        return Worker(process, ours, time.monotonic(), _START_LIMIT_S)


def _work(pipe: Connection, lock: Path) -> None:
    from kernelbench_gpu import work  # torch is the worker's alone: this process starts at once

    work(pipe, lock)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--minutes", type=float, required=True, help="end after that long")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--limit", type=int, help="no more problems than that")
    parser.add_argument("--again", action="store_true", help="try those that failed once more")
    workers = max(1, (os.cpu_count() or 1) - 3)  # three cores for who has the turn
    parser.add_argument("--workers", type=int, default=workers)
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    # each worker compiles in its own process; Triton's and Inductor's caches are shared
    os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1", OMP_NUM_THREADS="1")
    journal = Journal(options.out / FILE)
    problems = find_problems(options.path, options.levels)[: options.limit]
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "turn"
        run = Run(journal, problems, options.workers, deadline, options.again, lock, _work)
        run()
    left = jobs_left(problems, journal.lines, run.device, again=False)
    timed = sum(line.get("status") == OK and line["run"] == run.run for line in journal.lines)
    print(f"{len(problems) - len(left)} of {len(problems)} problems done, {timed} rows timed now")
    return 0 if timed or not left else 1


if __name__ == "__main__":
    sys.exit(main())
