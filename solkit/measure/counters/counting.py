"""Read hardware counters of a candidate's kernels and put them beside the analysis.

The candidate runs in its own process under Nsight Compute (`solkit.adapters.nsight`): once
uncounted, then once counted. Counting never overlaps timing.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from solkit.adapters import nsight
from solkit.core import Counters, Device, KernelAnalysis, KernelFile, Result
from solkit.errors import UnsupportedError
from solkit.measure.timing.gpu_lock import exclusive_gpu
from solkit.processes.host import python_path

_MOST_LAUNCHES = 32
"""Launches of one call; each is replayed about ten times."""
_SEED = 0


def count_launches(
    kernel: KernelFile, result: Result, device: Device, time_limit_s: float
) -> Result:
    """Return a result with each launch's counters, or with a note on why there are none.

    The result is of one shape, analysed and perhaps measured. The time limit is for waiting for the
    GPU and counting.
    """
    if device.uuid is None:
        return _with_note(result, f"Not counted: {device.name} is not in this machine.")
    if result.verdict.is_failure:
        return _with_note(result, "Not counted: the candidate fails.")
    live = result.measurement.launches if result.measurement else ()
    kernels = result.analysis.kernels or live
    if all(kernel_launch.launch.library for kernel_launch in kernels):
        return _with_note(result, "Not counted: no launch of the candidate is known by name.")
    try:
        with exclusive_gpu(device.uuid, time_limit_s):
            counters = _run_counted(kernel, result, kernels, device, time_limit_s)
    except UnsupportedError as error:
        return _with_note(result, f"Not counted: {error}.")
    matches = match_counters(kernels, counters)
    if all(match.counters is None for match in matches):
        result = _with_note(result, f"Not counted: none of {len(counters)} launches seen is known.")
    if result.analysis.kernels:
        return replace(result, analysis=replace(result.analysis, kernels=matches))
    assert result.measurement is not None
    return replace(result, measurement=replace(result.measurement, launches=matches))


def _with_note(result: Result, note: str) -> Result:
    return replace(result, analysis=replace(result.analysis, notes=(*result.analysis.notes, note)))


def _run_counted(
    kernel: KernelFile,
    result: Result,
    kernels: Sequence[KernelAnalysis],
    device: Device,
    time_limit_s: float,
) -> tuple[Counters, ...]:
    assert kernel.candidate is not None
    separate = kernel.candidate.path != kernel.problem.path
    job = {
        "path": kernel.candidate.path,
        "reference": kernel.problem.path if separate else None,
        "shape": dict(result.shape),
        "params": dict(result.params),
        "seed": _SEED,
    }
    return nsight.count_kernels(
        [sys.executable, "-m", "solkit.measure.counters.program", json.dumps(job)],
        [
            function_name(analysis.launch.name)
            for analysis in kernels
            if not analysis.launch.library
        ],
        device.compute_capability,
        cold=result.bound.protocol == "cold",
        limit=_MOST_LAUNCHES,
        env=environment(device),
        time_limit_s=time_limit_s,
    )


def environment(device: Device) -> dict[str, str]:
    """Environment of a process that sees only that GPU and imports this copy of SolKit."""
    chosen = {"CUDA_VISIBLE_DEVICES": device.uuid} if device.uuid else {}
    return {**os.environ, **chosen, "PYTHONPATH": python_path()}


def function_name(name: str) -> str:
    """Return a kernel's name as in Nsight Compute: without namespace and template arguments."""
    return name.partition("<")[0].rpartition("::")[2]


def match_counters(
    kernels: Sequence[KernelAnalysis], counters: Sequence[Counters]
) -> tuple[KernelAnalysis, ...]:
    """Return the launches, each with the counters of the first match by name and grid, in order.

    `kernels` has identical launches once, with their count; `counters` has each launch.
    """
    taken: dict[tuple[str, int], int] = {}
    matches: list[KernelAnalysis] = []
    for kernel in kernels:
        launch = kernel.launch
        # the driver's grid includes a cluster's blocks
        key = function_name(launch.name), math.prod(launch.grid) * launch.num_ctas
        alike = [
            counted_launch
            for counted_launch in counters
            if (counted_launch.name, math.prod(counted_launch.grid)) == key
        ]
        place = taken.get(key, 0)
        taken[key] = place + launch.count
        matches.append(replace(kernel, counters=alike[place] if place < len(alike) else None))
    return tuple(matches)
