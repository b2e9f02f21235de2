"""Compile or lower several kernels, here or each in a forked process.

Triton's functions don't pickle, so a child inherits them by fork. A compiler that crashes or hangs
ends only its own process, which without a fork is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from solkit.adapters.triton_compiler import (
    Compiled,
    Specialisation,
    compile_for,
    fill_cache,
    lower_for,
    machine_codes,
)
from solkit.adapters.triton_startup import prepare
from solkit.analysis.common.instructions import instruction_mix
from solkit.core import Depth, Device
from solkit.processes.parallel_calls import call_in_forks

_HERE = "nvml"  # `Device.source` of a GPU of this machine
COMPILE_LIMIT_S = 120.0
"""Limit of one compile; the slowest of 500 recorded ones took 5.2 s."""


def compile_all(
    kernels: Sequence[Specialisation],
    device: Device,
    jobs: int = 1,
    isolated: bool = False,
    limit_s: float = COMPILE_LIMIT_S,
    progress: Callable[[], None] = lambda: None,
    depth: Depth = Depth.COMPILED,
    is_read: bool = True,
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
        is_read: whether the machine code is read, which takes a quarter of a second at the least.

    Returns:
        One result per kernel, in their order.
    """
    prepare()  # once here instead of in every child
    make = lower_for if depth is Depth.LOWERED else compile_for
    if depth is Depth.COMPILED and device.source == _HERE:
        make = fill_cache  # it may be measured next: the GPU need not wait for a C compiler
    if not isolated and (jobs <= 1 or len(kernels) <= 1):
        here = []
        for kernel in kernels:
            here.append(make(kernel, device))
            progress()
        return _with_instruction_counts(here, device) if is_read else tuple(here)
    calls = [partial(make, kernel, device) for kernel in kernels]
    compiled = call_in_forks(calls, _failed_compile, jobs, limit_s, progress, _unfinished_compile)
    return _with_instruction_counts(compiled, device) if is_read else tuple(compiled)


def _failed_compile(reason: str) -> Compiled:
    return Compiled(error=f"the compiler {reason}")


def _unfinished_compile(reason: str) -> Compiled:
    """Return a result without an error: on a GPU the kernel may well run, after a longer wait."""
    return Compiled(unread=f"the compiler {reason}")


def _with_instruction_counts(compiled: Sequence[Compiled], device: Device) -> tuple[Compiled, ...]:
    """Replace machine code, which is long, by instruction counts."""
    results = []
    for kernel, code in zip(compiled, machine_codes(compiled, device), strict=True):
        result = replace(kernel, cubin=None)
        if isinstance(code, str):
            result = replace(result, unread=code)
        elif code is not None:
            mix = instruction_mix(code)
            tensor = mix.of("tensor") > 0 if result.tensor_cores is None else result.tensor_cores
            result = replace(result, instructions=mix, tensor_cores=tensor)
        results.append(result)
    return tuple(results)
