"""The worker process: what comes back, and what happens to jobs that misbehave."""

from __future__ import annotations

import os
import time

import pytest

from solkit import worker
from solkit.errors import JobDiedError, WorkerError


def test_a_job_returns_its_value_and_runs_elsewhere():
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0
    assert worker.call("os:getpid") != os.getpid()


def test_every_job_has_a_process_of_its_own():
    worker.call("os:putenv", "SOLKIT_TEST", "1")
    assert worker.call("os:getenv", "SOLKIT_TEST") is None
    assert worker.call("os:getpid") != worker.call("os:getpid")


def test_jobs_see_no_gpu():
    assert worker.call("os:getenv", "CUDA_VISIBLE_DEVICES") == ""


def test_an_unexpected_error_carries_its_traceback():
    with pytest.raises(WorkerError, match=r"(?s)Traceback.*math domain error|expected a"):
        worker.call("math:sqrt", -1.0)


def test_a_crash_names_its_signal_and_the_next_job_runs():
    with pytest.raises(JobDiedError, match="SIGABRT"):
        worker.call("os:abort")
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0


def test_a_hang_is_killed_at_its_time_limit():
    start = time.monotonic()
    with pytest.raises(JobDiedError, match=r"ran for over 0\.5 s"):
        worker.call("time:sleep", 60, timeout_s=0.5)
    assert time.monotonic() - start < 10


def test_a_dead_server_is_an_error_and_is_replaced():
    worker.call("os:getpid")
    worker._server.kill()
    worker._server.wait()
    assert worker.call("math:hypot", 3.0, 4.0) == 5.0
