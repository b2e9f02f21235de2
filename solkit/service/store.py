"""Jobs on disk: a queue in SQLite that any number of processes share.

A job is claimed by one worker at a time. Each claim has a number (`Job.attempt`), and only the
latest one may finish the job: so a job has one answer, though a worker died, was slow, or was taken
for dead.
"""

from __future__ import annotations

import enum
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from solkit.errors import InputError, StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    digest TEXT NOT NULL,
    request TEXT NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,
    progress TEXT NOT NULL DEFAULT '',
    result TEXT,
    error TEXT,
    created_s REAL NOT NULL,
    started_s REAL,
    finished_s REAL
);
CREATE INDEX IF NOT EXISTS by_status ON jobs (status, queue, number);
CREATE INDEX IF NOT EXISTS by_digest ON jobs (owner, digest);
CREATE TABLE IF NOT EXISTS keys (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points (
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    gpu_s REAL NOT NULL,
    budget_s REAL NOT NULL,
    best_ms REAL,
    sol_ms REAL
);
CREATE INDEX IF NOT EXISTS by_job ON points (job, attempt);
"""
_WAIT_S = 30.0  # for the lock of another process
_MOST_DEATHS = 5
"""Workers that may die on a job before it counts as their killer."""


class QueueFullError(InputError):
    """There are too many unfinished jobs."""


class ConflictError(InputError):
    """A request id was used before, for another request."""


class Status(str, enum.Enum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """True if nothing changes any more."""
        return self not in (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True)
class Job:
    """One request, and its answer if there is one.

    Attributes:
        id: its public name.
        owner: who asked: a digest of the token.
        kind: of `solkit.service.requests.KINDS`.
        queue: the queue that it is in.
        digest: of kind and request.
        request: as JSON.
        status: how far it is.
        attempt: how often it was claimed.
        deaths: workers that died while they were on it.
        progress: what it is doing, in words.
        result: the answer as JSON; ``None`` unless it is done.
        error: why it failed, as JSON with ``type`` and ``message``.
        created_s, started_s, finished_s: seconds since 1970.
        number: jobs in the order of arrival.
    """

    id: str
    owner: str
    kind: str
    queue: str
    digest: str
    request: str
    status: Status
    attempt: int
    deaths: int
    progress: str
    result: str | None
    error: str | None
    created_s: float
    started_s: float | None
    finished_s: float | None
    number: int


@dataclass(frozen=True)
class Point:
    """State of a search at one time.

    Attributes:
        gpu_s, budget_s: seconds spent of the budget.
        best_ms: the best time; ``None`` before that.
        sol_ms: the speed of light; ``None`` if unknown.
    """

    gpu_s: float
    budget_s: float = 0.0
    best_ms: float | None = None
    sol_ms: float | None = None


_FIELDS = tuple(field.name for field in fields(Job))
_COLUMNS = ", ".join(_FIELDS)
_UNFINISHED = f"({', '.join(repr(s.value) for s in Status if not s.is_over)})"


class JobStore:
    """The jobs in one folder; any number of threads may use it.

    Args:
        folder: made if it is missing.

    Raises:
        StorageError: it cannot be opened.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "jobs.sqlite"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = sqlite3.connect(
                self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
            # the log of changes survives a killed process; synchronous=FULL would save what a
            # power cut takes, at some ms a request
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"cannot open the jobs in {self.path}: {error}") from error
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    # ---------------------------------------------------------------------------------- for askers

    def submit(self, job: Job, key: str | None, limits: tuple[int, int], reuses: bool) -> Job:
        """Queue a job, or find the one that answers the request already.

        Args:
            job: new.
            key: the request id of the asker; the same one gives the same job.
            limits: unfinished jobs at the most: of all, and of this owner.
            reuses: whether an equal request of this owner answers this one as well.

        Raises:
            ConflictError: the key was used for another request.
            QueueFullError: there are too many unfinished jobs.
        """
        with self._write_transaction() as connection:
            earlier = self._earlier_job(connection, job, key, reuses)
            if earlier is None:
                self._refuse_more(connection, job.owner, limits)
                values = [getattr(job, name) for name in _FIELDS if name != "number"]
                names = ", ".join(name for name in _FIELDS if name != "number")
                marks = ", ".join("?" * len(values))
                connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", values)
            if key is not None:
                row = (job.owner, key, job.digest, (earlier or job).id)
                connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?)", row)
        return earlier or self.get(job.id)

    def get(self, name: str, owner: str | None = None) -> Job:
        """Return a job; of this owner, if one is given.

        Raises:
            InputError: there is none.
        """
        rows = self._query_jobs("SELECT {} FROM jobs WHERE id = ?", (name,))
        if not rows or (owner is not None and rows[0].owner != owner):
            raise InputError(f"there is no job {name!r}")
        return rows[0]

    def latest(self, most: int = 50, owner: str | None = None) -> list[Job]:
        """Return the newest jobs, newest first."""
        where, values = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
        return self._query_jobs(
            f"SELECT {{}} FROM jobs {where} ORDER BY number DESC LIMIT ?", (*values, most)
        )

    def counts(self) -> dict[tuple[str, str], int]:
        """Count the jobs by queue and status."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT queue, status, COUNT(*) FROM jobs GROUP BY queue, status"
            ).fetchall()
        return {(queue, status): count for queue, status, count in rows}

    def points(self, job: Job) -> list[Point]:
        """Return the states of a search in its latest claim, oldest first."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT gpu_s, budget_s, best_ms, sol_ms FROM points "
                "WHERE job = ? AND attempt = ? ORDER BY rowid",
                (job.id, job.attempt),
            ).fetchall()
        return [Point(*row) for row in rows]

    def cancel(self, name: str, owner: str | None = None) -> Job:
        """Cancel an unfinished job; a running one is given up, its answer is dropped.

        Raises:
            InputError: there is no such job.
        """
        self.get(name, owner)
        self._finish_job(name, None, Status.CANCELLED, None, None)
        return self.get(name, owner)

    # --------------------------------------------------------------------------------- for workers

    def claim(self, queue: str) -> Job | None:
        """Return the next job of a queue, which is the caller's now; ``None`` if there is none."""
        with self._write_transaction() as connection:
            row = connection.execute(
                "UPDATE jobs SET status = 'running', attempt = attempt + 1, started_s = ?, "
                "progress = '' WHERE number = (SELECT number FROM jobs WHERE status = 'queued' "
                f"AND queue = ? ORDER BY number LIMIT 1) RETURNING {_COLUMNS}",
                (time.time(), queue),
            ).fetchone()
        return None if row is None else _job_of_row(row)

    def tell(self, job: Job, progress: str, point: Point | None = None) -> bool:
        """Say how far a job is; whether it is still wanted, and still the caller's.

        Args:
            job: as claimed.
            progress: in words.
            point: in numbers, of a search; kept where the best time changes, and the latest.
        """
        with self._write_transaction() as connection:
            done = connection.execute(
                "UPDATE jobs SET progress = ? WHERE id = ? AND status = 'running' AND attempt = ?",
                (progress, job.id, job.attempt),
            )
            is_wanted = done.rowcount == 1
            if is_wanted and point is not None:
                _insert_point(connection, job, point)
            return is_wanted

    def finish(self, job: Job, result: str) -> bool:
        """Answer a job; whether the answer counts."""
        return self._finish_job(job.id, job.attempt, Status.DONE, result, None)

    def fail(self, job: Job, kind: str, message: str) -> bool:
        """Say why a job has no answer; whether that counts."""
        return self._finish_job(
            job.id, job.attempt, Status.FAILED, None, _error_json(kind, message)
        )

    def release(self, queue: str, died: bool) -> list[str]:
        """Queue again what a queue's worker was on; the ids of jobs that are given up instead.

        Args:
            queue: whose worker is gone.
            died: whether the jobs may be why; one on which several died is given up.
        """
        with self._write_transaction() as connection:
            if died:
                connection.execute(
                    "UPDATE jobs SET deaths = deaths + 1 WHERE queue = ? AND status = 'running'",
                    (queue,),
                )
            why = f"its worker process died {_MOST_DEATHS} times while it was on this job"
            given_up = connection.execute(
                "UPDATE jobs SET status = 'failed', error = ?, finished_s = ? WHERE queue = ? AND "
                "status = 'running' AND deaths >= ? RETURNING id",
                (_error_json("WorkerError", why), time.time(), queue, _MOST_DEATHS),
            ).fetchall()
            connection.execute(
                "UPDATE jobs SET status = 'queued', progress = '' WHERE queue = ? AND "
                "status = 'running'",
                (queue,),
            )
        return [name for (name,) in given_up]

    def recover(self, queues: Sequence[str]) -> None:
        """After a server ended: queue again what was running; move jobs of queues that are gone.

        Args:
            queues: those that there are now; jobs of others go to the last one.
        """
        with self._write_transaction() as connection:
            connection.execute(
                "UPDATE jobs SET status = 'queued', progress = '' WHERE status = 'running'"
            )
            marks = ", ".join("?" * len(queues))
            connection.execute(
                f"UPDATE jobs SET queue = ? WHERE status = 'queued' AND queue NOT IN ({marks})",
                (queues[-1], *queues),
            )

    def prune(self, older_s: float) -> None:
        """Forget jobs that finished so many seconds ago, with their request ids."""
        with self._write_transaction() as connection:
            connection.execute(
                f"DELETE FROM jobs WHERE status NOT IN {_UNFINISHED} AND finished_s < ?",
                (time.time() - older_s,),
            )
            for table in ("keys", "points"):
                connection.execute(f"DELETE FROM {table} WHERE job NOT IN (SELECT id FROM jobs)")

    # ------------------------------------------------------------------------------------- insides

    def _write_transaction(self) -> _Transaction:
        return _Transaction(self._connection, self._lock)

    def _query_jobs(self, sql: str, values: Iterable[Any]) -> list[Job]:
        with self._lock:
            rows = self._connection.execute(sql.format(_COLUMNS), tuple(values)).fetchall()
        return [_job_of_row(row) for row in rows]

    def _earlier_job(
        self, connection: sqlite3.Connection, job: Job, key: str | None, reuses: bool
    ) -> Job | None:
        if key is not None:
            row = connection.execute(
                "SELECT digest, job FROM keys WHERE owner = ? AND key = ?", (job.owner, key)
            ).fetchone()
            if row is not None:
                if row[0] != job.digest:
                    raise ConflictError(f"the request id {key!r} was used for another request")
                return _first_job(connection, "id = ?", (row[1],))
        if not reuses:
            return None
        return _first_job(
            connection,
            "owner = ? AND digest = ? AND status IN ('queued', 'running', 'done') ORDER BY number",
            (job.owner, job.digest),
        )

    def _refuse_more(
        self, connection: sqlite3.Connection, owner: str, limits: tuple[int, int]
    ) -> None:
        all_, own = connection.execute(
            f"SELECT COUNT(*), SUM(owner = ?) FROM jobs WHERE status IN {_UNFINISHED}", (owner,)
        ).fetchone()
        if all_ >= limits[0]:
            raise QueueFullError(f"the queue is full: {all_} jobs are unfinished; try again later")
        if (own or 0) >= limits[1]:
            raise QueueFullError(f"{own} jobs of yours are unfinished; try again later")

    def _finish_job(
        self, name: str, attempt: int | None, status: Status, result: str | None, error: str | None
    ) -> bool:
        """End an unfinished job; of an attempt, only if it is the latest."""
        latest = f"status IN {_UNFINISHED}" if attempt is None else "status = 'running'"
        with self._write_transaction() as connection:
            done = connection.execute(
                "UPDATE jobs SET status = ?, result = ?, error = ?, finished_s = ?, progress = '' "
                f"WHERE id = ? AND {latest} AND attempt = COALESCE(?, attempt)",
                (status.value, result, error, time.time(), name, attempt),
            )
            return done.rowcount == 1


class _Transaction:
    """A transaction that sees what others wrote, and that no thread or process disturbs."""

    def __init__(self, connection: sqlite3.Connection, lock: threading.Lock) -> None:
        self._connection, self._lock = connection, lock

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise StorageError(f"the jobs cannot be written: {error}") from error
            raise
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
        finally:
            self._lock.release()


def new_job(owner: str, kind: str, queue: str, digest: str, request: str) -> Job:
    """Return a job that is not queued yet."""
    name, now_s = secrets.token_hex(8), time.time()
    values = (name, owner, kind, queue, digest, request, Status.QUEUED)
    return Job(*values, 0, 0, "", None, None, now_s, None, None, 0)


def _insert_point(connection: sqlite3.Connection, job: Job, point: Point) -> None:
    """Add a point; the one before it goes if neither its best time nor the one before differs."""
    last = connection.execute(
        "SELECT rowid, best_ms FROM points WHERE job = ? AND attempt = ? "
        "ORDER BY rowid DESC LIMIT 2",
        (job.id, job.attempt),
    ).fetchall()
    if len(last) == 2 and last[0][1] == last[1][1] == point.best_ms:
        connection.execute("DELETE FROM points WHERE rowid = ?", (last[0][0],))
    values = (job.id, job.attempt, point.gpu_s, point.budget_s, point.best_ms, point.sol_ms)
    connection.execute("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?)", values)


def _first_job(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> Job | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE {where} LIMIT 1", values)
    record = row.fetchone()
    return None if record is None else _job_of_row(record)


def _job_of_row(row: Sequence[Any]) -> Job:
    named = dict(zip(_FIELDS, row, strict=True))
    return Job(**{**named, "status": Status(named["status"])})


def _error_json(kind: str, message: str) -> str:
    return json.dumps({"type": kind, "message": message})
