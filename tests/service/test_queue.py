"""Queues and workers of the service whose disk is full, or whose processes do not start."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from solkit.errors import InputError, StorageError, WorkerError
from solkit.service import queue, worker
from solkit.service.queue import JobQueue
from solkit.service.sessions import Bench, LabSessions
from solkit.service.settings import ServiceSettings


def test_who_waits_for_no_job_leaves_nothing_behind(tmp_path):
    desk = JobQueue(ServiceSettings(tmp_path / "state", device="h100"))
    with pytest.raises(InputError, match="no job"):
        asyncio.run(desk.wait("none", 1.0))
    assert desk._over == {}
    desk.store.close()


def test_a_worker_that_cannot_be_started_is_tried_again(tmp_path, monkeypatch):
    async def serve():
        starts, started = [], asyncio.Event()

        @contextlib.asynccontextmanager
        async def worker_process(_):
            starts.append(1)
            if len(starts) == 1:
                raise OSError("no process is granted")
            started.set()
            yield SimpleNamespace(stdout=asyncio.StreamReader())

        monkeypatch.setattr(queue, "_worker_process", worker_process)
        monkeypatch.setattr(queue, "_FIRST_BACKOFF_S", 0.0)
        async with JobQueue(ServiceSettings(tmp_path / "state", device="h100")):
            await asyncio.wait_for(started.wait(), 60.0)

    asyncio.run(serve())


def test_how_a_job_ended_is_written_again_if_the_disk_was_full(monkeypatch):
    monkeypatch.setattr(worker, "_POLL_S", 0.0)
    answers = iter([StorageError("the jobs cannot be written"), None])
    written = []

    def write():
        if (error := next(answers)) is not None:
            raise error
        written.append(1)

    worker._JobEnds().write(write)
    assert written == [1]


def test_a_job_that_loses_its_files_as_its_worker_leaves_has_not_failed():
    ends, written = worker._JobEnds(), []
    ends.write(lambda: written.append("done"))
    ends.stop()
    ends.write(lambda: written.append("failed"))
    assert written == ["done"]


def test_a_lab_that_does_not_close_keeps_no_other_job_waiting():
    class Lab:
        def close(self):
            raise WorkerError("a process still exists")

    sessions = LabSessions(SimpleNamespace())
    sessions._open["k"] = Bench(Lab())
    with pytest.raises(WorkerError, match="still exists"), sessions.without():
        pass
    assert not sessions._is_kept
    with sessions.without():
        assert not sessions._open
