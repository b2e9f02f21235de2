"""Compile or lower several kernels, here or each in a forked process.

Triton's functions don't pickle, so a child inherits them by fork. A compiler that crashes or hangs
ends only its own process, which without a fork is the caller's.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from solkit.adapters.triton_compiler import (
    Compiled,
    Specialisation,
    compile_for,
    lower_for,
    machine_codes,
    prepare,
)
from solkit.analysis.common.instructions import mix_of
from solkit.core import Depth, Device

__all__ = ["compile_all"]

COMPILE_LIMIT_S = 120.0
"""Limit of one compile; the slowest of 500 recorded ones took 5.2 s."""


@dataclass
class _Job:
    index: int
    process: ForkProcess
    answer: Connection
    deadline: float


def compile_all(
    kernels: Sequence[Specialisation],
    device: Device,
    jobs: int = 1,
    isolated: bool = False,
    limit_s: float = COMPILE_LIMIT_S,
    progress: Callable[[], None] = lambda: None,
    depth: Depth = Depth.COMPILED,
) -> tuple[Compiled, ...]:
    """Compile each kernel for a device, or only lower it.

    Args:
        kernels: what to compile.
        device: the target.
        jobs: processes that may run at once; with one, kernels are compiled in this process.
        isolated: whether each is compiled in a process of its own regardless.
        limit_s: time limit of a compile in a process of its own.
        progress: called after each.
        depth: compiled or lowered.

    Returns:
        One result per kernel, in their order.
    """
    prepare()  # once here instead of in every child
    make = lower_for if depth is Depth.LOWERED else compile_for
    if not isolated and (jobs <= 1 or len(kernels) <= 1):
        here = []
        for kernel in kernels:
            here.append(make(kernel, device))
            progress()
        return _read(here, device)
    results: dict[int, Compiled] = {}
    waiting = list(range(len(kernels)))[::-1]
    running: list[_Job] = []
    while waiting or running:
        while waiting and len(running) < max(jobs, 1):
            index = waiting.pop()
            running.append(_start(index, partial(make, kernels[index], device), limit_s))
        for job in _finished(running):
            results[job.index] = _collect(job, limit_s)
            running.remove(job)
            progress()
    return _read([results[index] for index in range(len(kernels))], device)


def _read(compiled: Sequence[Compiled], device: Device) -> tuple[Compiled, ...]:
    """With instruction counts in place of machine code, which is long."""
    found = []
    for each, code in zip(compiled, machine_codes(compiled, device), strict=True):
        told = replace(each, cubin=None)
        if isinstance(code, str):
            told = replace(told, unread=code)
        elif code is not None:
            told = replace(told, instructions=mix_of(code))
        found.append(told)
    return tuple(found)


def _start(index: int, make: Callable[[], Compiled], limit_s: float) -> _Job:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(make()), daemon=True)
    process.start()
    sender.close()  # the child's copy is the last, so its death is an end of file
    return _Job(index, process, receiver, time.monotonic() + limit_s)


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
