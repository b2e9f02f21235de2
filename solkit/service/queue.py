"""The desk: takes requests, starts the workers, and hands out answers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

import solkit
from solkit.core.codec import to_json
from solkit.errors import InputError, StorageError
from solkit.service.requests import Ask, Profile, refuse_paths
from solkit.service.settings import CPU, QUEUED_FOR_A_GPU, TEMPORARY, QueueSettings, ServiceSettings
from solkit.service.store import Job, JobStore, Status, new_job

T = TypeVar("T")

REUSED = ("bound", "analyse", "rank")
"""Kinds whose answers depend on the request alone: an equal one is not computed again."""

_POLL_S = 0.5
_PRUNED_EVERY_S = 3600.0
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.1, 10.0
_LEAVES_S = 5.0
_HEALTHY_S = 30.0  # a worker that lasts so long is started again at once


@dataclass
class QueueState:
    """A queue and its worker.

    Attributes:
        how: the worker's settings.
        pid: its process; ``None`` while there is none.
        deaths: how often it had to be replaced.
    """

    how: QueueSettings
    pid: int | None = None
    deaths: int = 0
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    def wake(self) -> None:
        """Tell the worker that a job was queued."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self.process.stdin.write(b"wake\n")


class JobQueue:
    """Takes requests, in an ``async with`` block.

    Args:
        settings: how the service runs.

    Attributes:
        settings: as given.
        store: the jobs.
        queues: by name.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.store = JobStore(settings.state)
        self.queues = {queue.name: QueueState(queue) for queue in settings.queues}
        self._over: dict[str, list[asyncio.Future[None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: IO[str] | None = None

    async def __aenter__(self) -> JobQueue:
        self._lock = hold_folder(self.settings.state)
        self.store.prune(86400 * self.settings.keep_days)
        self.store.recover(list(self.queues))
        for queue in self.queues.values():
            self._tasks.append(asyncio.create_task(self._supervise_worker(queue)))
        self._tasks.append(asyncio.create_task(self._prune_jobs()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the workers; their jobs are queued again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.store.close()
        if self._lock is not None:
            self._lock.close()

    # ------------------------------------------------------------------------------------- asking

    async def submit(self, kind: str, ask: Ask, owner: str, key: str | None = None) -> Job:
        """Queue a request, or find the job that answers it already.

        Args:
            kind: of `solkit.service.requests.KINDS`.
            ask: the request.
            owner: who asks.
            key: the asker's id of the request: the same one gives the same job.

        Raises:
            ConflictError: the key was used for another request.
            QueueFullError: there are too many unfinished jobs.
        """
        request = ask.model_dump_json()
        digest = hashlib.sha256(f"{solkit.__version__} {kind} {request}".encode()).hexdigest()
        limits = self.settings.max_queue, self.settings.max_queue_each
        job = new_job(owner, kind, self._least_loaded_queue(kind, ask), digest, request)
        reuses = kind in REUSED and _is_self_contained(ask)
        stored = await _call_in_thread(lambda: self.store.submit(job, key, limits, reuses))
        if stored.status is Status.QUEUED:
            self.queues[stored.queue].wake()
        return stored

    async def wait(self, name: str, seconds: float, owner: str | None = None) -> Job:
        """Return the job, when it is over or so many seconds have passed.

        Raises:
            InputError: there is no such job.
        """
        ends_s = time.monotonic() + seconds
        while True:
            future = self._future_of_job(name)
            try:
                job = await _call_in_thread(lambda: self.store.get(name, owner))
                left_s = ends_s - time.monotonic()
                if job.status.is_over or left_s <= 0:
                    return job
                await asyncio.wait([future], timeout=min(left_s, _POLL_S))
            finally:
                self._forget_future(name, future)

    async def cancel(self, name: str, owner: str | None = None) -> Job:
        """Cancel a job; a running one is given up, and its answer dropped.

        Raises:
            InputError: there is no such job.
        """
        job = await _call_in_thread(lambda: self.store.cancel(name, owner))
        self._wake_waiting(name)
        return job

    def _least_loaded_queue(self, kind: str, ask: Ask) -> str:
        """Return the queue with the fewest jobs that can do this."""
        own = [name for name in self.queues if name != CPU]
        runs = isinstance(ask, Profile) and ask.path.endswith(".py")
        if not own or not (runs or kind in QUEUED_FOR_A_GPU):
            return CPU
        if len(own) == 1:
            return own[0]
        counts = self.store.counts()
        unfinished = {
            name: sum(counts.get((name, status), 0) for status in ("queued", "running"))
            for name in own
        }
        return min(own, key=unfinished.__getitem__)

    # ------------------------------------------------------------------------------------ waiting

    def _future_of_job(self, name: str) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over.setdefault(name, []).append(future)
        return future

    def _forget_future(self, name: str, future: asyncio.Future[None]) -> None:
        waiting = self._over.get(name, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._over.pop(name, None)

    def _wake_waiting(self, name: str) -> None:
        """Wake those who wait for a job."""
        for future in self._over.pop(name, []):
            if not future.done():
                future.set_result(None)

    # ------------------------------------------------------------------------------------ workers

    async def _supervise_worker(self, queue: QueueState) -> None:
        """Keep a queue's worker running, until the desk closes."""
        backoff_s = _FIRST_BACKOFF_S
        while True:
            began_s = time.monotonic()
            try:
                async with _worker_process(queue) as process:
                    assert process.stdout is not None
                    async for line in process.stdout:
                        self._wake_waiting(line.decode().strip())
                queue.deaths += 1
                for name in await _call_in_thread(
                    lambda: self.store.release(queue.how.name, died=True)
                ):
                    self._wake_waiting(name)
            except Exception:  # no process is granted, or the disk is full: jobs wait for the next
                traceback.print_exc()
            lasted = time.monotonic() - began_s > _HEALTHY_S
            backoff_s = _FIRST_BACKOFF_S if lasted else min(2 * backoff_s, _LAST_BACKOFF_S)
            await asyncio.sleep(backoff_s)

    async def _prune_jobs(self) -> None:
        while True:
            await asyncio.sleep(_PRUNED_EVERY_S)
            with contextlib.suppress(StorageError, sqlite3.OperationalError):  # the disk is full
                await _call_in_thread(lambda: self.store.prune(86400 * self.settings.keep_days))


@contextlib.asynccontextmanager
async def _worker_process(queue: QueueState) -> AsyncIterator[asyncio.subprocess.Process]:
    """Yield a queue's worker."""
    settings = json.dumps(to_json(queue.how))
    temporary = tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "solkit.service.worker", settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": temporary.name},  # sources go there, and end with the worker
        start_new_session=True,  # Ctrl-C is for the server, which ends its workers
    )
    queue.pid, queue.process = process.pid, process
    try:
        yield process
        await process.wait()
    finally:
        queue.pid = queue.process = None
        if process.returncode is None:
            await _end_worker(process)
        temporary.cleanup()


async def _end_worker(process: asyncio.subprocess.Process) -> None:
    """End a worker: it leaves when its standard input ends, else it is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _LEAVES_S)
    except (TimeoutError, asyncio.TimeoutError):  # two classes on Python 3.10
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _is_self_contained(ask: Ask) -> bool:
    """Tell whether a request says it all: what a path names may change."""
    try:
        refuse_paths(ask)
    except InputError:
        return False
    return True


def hold_folder(folder: Path) -> IO[str]:
    """Hold a folder of jobs; the system lets go of it when the process ends.

    Raises:
        InputError: another service holds it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = Path(folder, "lock").open("a")  # noqa: SIM115 - it is held until the desk closes
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise InputError(f"another service uses the jobs in {os.fspath(folder)}") from None
    return file


async def _call_in_thread(call: Callable[[], T]) -> T:
    """Call what waits for the disk without holding up others."""
    return await asyncio.to_thread(call)
