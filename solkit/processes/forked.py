"""Call functions each in a fork of this process: what they need is inherited, not pickled.

A call that crashes or hangs ends only its own process. A fork has no threads but the caller's, and
no GPU: a call must use neither CUDA nor OpenMP.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

__all__ = ["forked"]

T = TypeVar("T")


@dataclass
class _Job:
    index: int
    process: ForkProcess
    answer: Connection
    deadline: float


def forked(
    calls: Sequence[Callable[[], T]],
    failed: Callable[[str], T],
    jobs: int,
    limit_s: float,
    progress: Callable[[], None] = lambda: None,
) -> list[T]:
    """Make each call in a process of its own.

    Args:
        calls: what to call; the results are pickled.
        failed: makes the result of a call that ended its process; gets the reason, such as
            ``"crashed (exit code -9)"``.
        jobs: processes that may run at once.
        limit_s: of each call.
        progress: called after each.

    Returns:
        A result for each call, in their order.
    """
    results: dict[int, T] = {}
    waiting = list(range(len(calls)))[::-1]
    running: list[_Job] = []
    try:
        while waiting or running:
            while waiting and len(running) < max(jobs, 1):
                index = waiting.pop()
                running.append(_start(index, calls[index], limit_s))
            for job in _finished(running):
                results[job.index] = _collect(job, failed, limit_s)
                running.remove(job)
                progress()
    finally:  # Ctrl-C, or a result that cannot be read
        for job in running:
            job.process.kill()
            job.process.join()
    return [results[index] for index in range(len(calls))]


def _start(index: int, call: Callable[[], Any], limit_s: float) -> _Job:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def answer() -> None:
        gc.disable()  # collecting the caller's garbage may call CUDA
        sender.send(call())

    process = context.Process(target=answer, daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns of threads whatever the child does
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        process.start()
    sender.close()  # the child's copy is the last, so its death is an end of file
    return _Job(index, process, receiver, time.monotonic() + limit_s)


def _finished(running: Sequence[_Job]) -> list[_Job]:
    """Wait until some job has answered, died or run out of time."""
    patience = max(min(job.deadline for job in running) - time.monotonic(), 0.0)
    answered = wait([job.answer for job in running], timeout=patience)
    now = time.monotonic()
    return [job for job in running if job.answer in answered or job.deadline <= now]


def _collect(job: _Job, failed: Callable[[str], T], limit_s: float) -> T:
    try:
        if not job.answer.poll():
            job.process.kill()
            return failed(f"was stopped after {limit_s:g} s")
        result: T = job.answer.recv()
        return result
    except EOFError:
        job.process.join()
        return failed(f"crashed (exit code {job.process.exitcode})")
    finally:
        job.answer.close()
        job.process.join()
