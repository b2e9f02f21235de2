"""Calls in processes of their own: in forks of this one, or in a pool of new interpreters.

What a call in a fork needs is inherited, not pickled. One that crashes or hangs ends only its own
process. A fork has no threads but the caller's, and no GPU: such a call must use neither CUDA nor
OpenMP.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class _Job:
    index: int
    process: ForkProcess
    answer: Connection
    deadline: float


def call_in_forks(
    calls: Sequence[Callable[[], T]],
    failed: Callable[[str], T],
    jobs: int,
    limit_s: float,
    progress: Callable[[], None] = lambda: None,
    stopped: Callable[[str], T] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[T]:
    """Make each call in a process of its own.

    Args:
        calls: what to call; the results are pickled.
        failed: makes the result of a call that ended its process; gets the reason, such as
            ``"crashed (exit code -9)"``.
        jobs: processes that may run at once.
        limit_s: of each call.
        progress: called after each.
        stopped: makes the result of a call that ran out of time; `failed` by default.
        meanwhile: called here once the first processes run; its errors end all of them.

    Returns:
        A result for each call, in their order.
    """
    results: dict[int, T] = {}
    waiting = list(range(len(calls)))[::-1]
    running: list[_Job] = []
    is_first = True
    try:
        while waiting or running:
            while waiting and len(running) < max(jobs, 1):
                index = waiting.pop()
                running.append(_start_job(index, calls[index], limit_s))
            if is_first:
                is_first = False
                meanwhile()
            for job in _wait_for_finished(running):
                results[job.index] = _collect_result(job, failed, stopped or failed, limit_s)
                running.remove(job)
                progress()
    finally:  # Ctrl-C, or a result that cannot be read
        for job in running:
            job.process.kill()
            job.process.join()
    return [results[index] for index in range(len(calls))]


def _start_job(index: int, call: Callable[[], Any], limit_s: float) -> _Job:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def send_answer() -> None:
        gc.disable()  # collecting the caller's garbage may call CUDA
        sender.send(call())

    process = context.Process(target=send_answer, daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns of threads whatever the child does
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        process.start()
    sender.close()  # the child's copy is the last, so its death is an end of file
    return _Job(index, process, receiver, time.monotonic() + limit_s)


def _wait_for_finished(running: Sequence[_Job]) -> list[_Job]:
    """Wait until some job has answered, died or run out of time."""
    patience = max(min(job.deadline for job in running) - time.monotonic(), 0.0)
    answered = wait([job.answer for job in running], timeout=patience)
    now = time.monotonic()
    return [job for job in running if job.answer in answered or job.deadline <= now]


def _collect_result(
    job: _Job, failed: Callable[[str], T], stopped: Callable[[str], T], limit_s: float
) -> T:
    try:
        if not job.answer.poll():
            job.process.kill()
            return stopped(f"was stopped after {limit_s:g} s")
        answer = job.answer.recv_bytes()
    except (EOFError, OSError):  # the latter within an answer
        job.process.join()
        return failed(f"crashed (exit code {job.process.exitcode})")
    finally:
        job.answer.close()
        job.process.join()
    result: T = pickle.loads(answer)
    return result


# ---------------------------- A pool of processes that Ctrl-C ends without a word from any of them


@contextlib.contextmanager
def process_pool(
    number: int,
    initializer: Callable[..., object] | None = None,
    args: tuple[Any, ...] = (),
    forks: bool = False,
) -> Iterator[Executor]:
    """So many new Python processes; whatever ends the block early ends them at once.

    Args:
        number: of processes.
        initializer: runs first in each of them.
        args: for it.
        forks: whether they are forks of this process, which inherit what it has loaded and `args`.
    """
    before = {process.pid for process in multiprocessing.active_children()}
    context = multiprocessing.get_context("fork" if forks else "spawn")
    with ProcessPoolExecutor(number, context, initializer, args) as executor:
        try:
            with _interrupts_held():  # each is started by the first calls, and inherits the mask
                for _ in range(number):
                    executor.submit(_do_nothing)
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            mine = [e for e in multiprocessing.active_children() if e.pid not in before]
            for process in mine:
                process.kill()
            for process in mine:
                process.join()
            raise


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait. Processes that start meanwhile never see it."""
    signals = {signal.SIGINT}
    was = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, was)


def _do_nothing() -> None:
    """Do nothing: a call that starts a process."""
