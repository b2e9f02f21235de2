"""The process of one queue: takes jobs from the store, does them, and says so.

::

    server ── "wake" ──► stdin    a job was queued
           ◄─ job id ─── stdout   a job is over

It ends when its standard input does, so it never outlives its server, however that ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from solkit.core.codec import from_json
from solkit.errors import SolkitError, StorageError
from solkit.service.handlers import JobHandlers
from solkit.service.settings import TEMPORARY, QueueSettings
from solkit.service.store import Job, JobStore, Point

_POLL_S = 1.0
"""A wake-up may be lost with the server that would have sent it."""


class _UnwantedError(BaseException):
    """The job was cancelled, or is another worker's now."""


class _JobEnds:
    """Writes how jobs ended, until the process leaves: what it is on is queued again then.

    A job that is under way loses its temporary files and its processes meanwhile, and fails.
    """

    def __init__(self) -> None:
        self._writing = threading.RLock()  # SIGTERM may arrive within `stop`
        self._is_stopped = False

    def write(self, write: Callable[[], object]) -> None:
        """Write how a job ended, for which somebody waits; again if the disk is full, say."""
        while True:
            try:
                with self._writing:
                    if not self._is_stopped:
                        write()
                return
            except (StorageError, sqlite3.OperationalError):
                traceback.print_exc()
                time.sleep(_POLL_S)

    def stop(self) -> None:
        """Write nothing from now on."""
        with self._writing:
            self._is_stopped = True


class _Worker:
    """Threads that take jobs from one queue."""

    def __init__(self, how: QueueSettings, answers: int) -> None:
        self._how, self._answers = how, answers
        self._store, self._workshop = JobStore(how.state), JobHandlers(how)
        self._ends = _JobEnds()
        self._queued = threading.Semaphore(0)  # jobs that no thread has looked for yet

    def start(self) -> None:
        for number in range(self._how.threads):
            threading.Thread(target=self._work_on_jobs, name=f"job-{number}", daemon=True).start()

    def wake(self) -> None:
        self._queued.release()

    def _work_on_jobs(self) -> None:
        while True:
            try:
                job = self._store.claim(self._how.name)
                if job is not None:
                    self._perform_job(job)
                    os.write(self._answers, f"{job.id}\n".encode())
                    continue
            except Exception:  # the disk is full, or the file locked: a thread must not end
                traceback.print_exc()
            self._queued.acquire(timeout=_POLL_S)

    def _perform_job(self, job: Job) -> None:
        def tell(progress: str, point: Point | None) -> None:
            if not self._store.tell(job, progress, point):
                raise _UnwantedError

        try:
            result = self._workshop.perform(job.kind, job.request, job.owner, tell)
            self._ends.write(lambda: self._store.finish(job, result))
        except _UnwantedError:
            pass  # it was cancelled: nobody waits for an answer
        except SolkitError as error:
            kind, message = _error_kind(error), str(error)
            self._ends.write(lambda: self._store.fail(job, kind, message))
        except Exception as error:
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}"
            self._ends.write(lambda: self._store.fail(job, "WorkerError", message))

    def leave(self) -> NoReturn:
        """End with all children; what they were on is queued again.

        The folder for temporary files is this process's own, if a desk started it. It is removed
        here as well, since a server that was killed removes nothing.
        """
        self._ends.stop()
        folder = Path(tempfile.gettempdir())
        if folder.name.startswith(TEMPORARY):
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _error_kind(error: SolkitError) -> str:
    """Return the most general name that says who is at fault."""
    from solkit.errors import GpuBusyError, InputError, UnsupportedError

    for kind in (InputError, GpuBusyError, UnsupportedError):
        if isinstance(error, kind):
            return kind.__name__
    return "WorkerError"


def main(settings: str) -> NoReturn:
    """Work until standard input ends.

    Args:
        settings: a `QueueSettings` as JSON.
    """
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever else prints must not answer
    worker = _Worker(from_json(QueueSettings, json.loads(settings)), answers)
    worker.start()
    signal.signal(signal.SIGTERM, lambda *_: worker.leave())
    for _ in sys.stdin:
        worker.wake()
    worker.leave()


if __name__ == "__main__":
    main(sys.argv[1])
