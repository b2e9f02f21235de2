"""Compile several kernels at once, each in a forked process.

Triton's functions don't pickle, so a child inherits them by fork; and a compiler that crashes or
hangs takes only its own child along.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from solkit.adapters.triton_compiler import Compiled, Specialisation, compile_for, prepare
from solkit.analysis.instructions import mix_of
from solkit.core import Device

__all__ = ["compile_all"]

COMPILE_LIMIT_S = 120.0
"""A compile that takes longer is given up; the slowest of 500 recorded ones took 5.2 s."""


@dataclass
class _Job:
    index: int
    process: ForkProcess
    answer: Connection
    deadline: float


def compile_all(
    kernels: Sequence[Specialisation],
    device: Device,
    jobs: int,
    limit_s: float = COMPILE_LIMIT_S,
) -> tuple[Compiled, ...]:
    """Compile each kernel for a device.

    Args:
        kernels: what to compile.
        device: the target.
        jobs: processes that may run at once.
        limit_s: seconds after which a compile is given up.

    Returns:
        One result per kernel, in their order.
    """
    prepare()  # here once, or in every child
    results: dict[int, Compiled] = {}
    waiting = list(range(len(kernels)))[::-1]
    running: list[_Job] = []
    while waiting or running:
        while waiting and len(running) < max(jobs, 1):
            index = waiting.pop()
            running.append(_start(index, kernels[index], device, limit_s))
        for job in _finished(running):
            results[job.index] = _collect(job, limit_s)
            running.remove(job)
    return tuple(results[index] for index in range(len(kernels)))


def _start(index: int, kernel: Specialisation, device: Device, limit_s: float) -> _Job:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(_compile(kernel, device)), daemon=True)
    process.start()
    sender.close()  # the child's copy is then the last, and its death is seen as end of file
    return _Job(index, process, receiver, time.monotonic() + limit_s)


def _compile(kernel: Specialisation, device: Device) -> Compiled:
    """What the compiler tells, its code counted: that is long, and the counts are short."""
    compiled = compile_for(kernel, device)
    if compiled.code is None:
        return compiled
    return replace(compiled, code=None, instructions=mix_of(compiled.code))


def _finished(running: Sequence[_Job]) -> list[_Job]:
    """Wait until some job has answered, died or run out of time."""
    patience = max(min(job.deadline for job in running) - time.monotonic(), 0.0)
    answered = wait([job.answer for job in running], timeout=patience)
    now = time.monotonic()
    return [job for job in running if job.answer in answered or job.deadline <= now]


def _collect(job: _Job, limit_s: float) -> Compiled:
    try:
        if not job.answer.poll():
            job.process.kill()
            return Compiled(error=f"the compiler was stopped after {limit_s:g} s")
        compiled: Compiled = job.answer.recv()
        return compiled
    except EOFError:
        job.process.join()
        return Compiled(error=f"the compiler crashed (exit code {job.process.exitcode})")
    finally:
        job.answer.close()
        job.process.join()
