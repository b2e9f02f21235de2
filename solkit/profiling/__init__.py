"""Profiles: the kernels of a real run, each with its op, its bound, and what it could save.

::

    trace ─ trace_reader ─► events ─ matching ─► op of a kernel ─ units, replay ─► bound of an op
                               └─ timeline ─► window, idle time ──── savings ─► Profile
    script ─ script, _runner ─► trace

The public function is `solkit.profile`. Only `replay` and `_runner` need torch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from solkit.core import Device, Profile
from solkit.errors import InputError, UnknownDeviceError, UnsupportedError
from solkit.profiling import script, units
from solkit.profiling.matching import match_activities
from solkit.profiling.problems import list_problems, read_flow
from solkit.profiling.rows import Run
from solkit.profiling.timeline import find_window, idle_time
from solkit.profiling.trace_reader import Gpu, Recording, read_trace
from solkit.roofline import devices as catalogue
from solkit.roofline import nvml
from solkit.roofline.calibration import calibrated

__all__ = ["profile", "profile_with_problems"]

_SKIPPED_CALLS = 3
"""The first calls of a script compile, tune and fill caches."""


def profile(
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    device: str | Device | None = None,
    precision: str = "tolerance",
    skip: int | None = None,
    calls: int = 5,
    trace_out: str | os.PathLike[str] | None = None,
    time_limit_s: float = 600.0,
) -> Profile:
    """Show where the time of a run went, op by op, and what closing each gap saves end to end.

    Args:
        path: a Chrome trace of PyTorch's profiler, made with ``record_shapes=True``; or a Python
            script, which runs here under the profiler. From the second on, each call of its model
            begins a step.
        arguments: of the script.
        device: the GPU of the recording, by the catalogue; by default the one that it names.
        precision: see `solkit.roofline.precision_routes.Rule`.
        skip: steps to leave out at the beginning; by default 3 of a script, none of a trace.
        calls: steps of a script to profile after those; then the script is ended.
        trace_out: file for a script's trace; by default it is not kept.
        time_limit_s: seconds after which a script is interrupted.

    Raises:
        InputError: the trace or the script cannot be read, or nothing in it ran on a GPU.
        UnknownDeviceError: the catalogue lacks its GPU, or `device`.
        UnsupportedError: `path` is a script, and this machine has no GPU.
    """
    options = _Options(device, precision, skip, calls, trace_out, time_limit_s)
    return _profile(path, arguments, options, lists_problems=False)


def profile_with_problems(
    path: str | os.PathLike[str], arguments: Sequence[str] = (), **options: Any
) -> Profile:
    """Return a profile that lists what its ops compute, with a reference each.

    Elementwise ops are together where a script runs here: a saved trace does not identify tensors.

    Args:
        path: as for `profile`.
        arguments: of the script.
        options: as for `profile`.

    Raises:
        InputError, UnknownDeviceError, UnsupportedError: as for `profile`.
    """
    return _profile(path, arguments, _Options(**options), lists_problems=True)


@dataclass(frozen=True)
class _Options:
    """Options of `profile`."""

    device: str | Device | None = None
    precision: str = "tolerance"
    skip: int | None = None
    calls: int = 5
    trace_out: str | os.PathLike[str] | None = None
    time_limit_s: float = 600.0


def _profile(
    path: str | os.PathLike[str], arguments: Sequence[str], how: _Options, lists_problems: bool
) -> Profile:
    file = os.fspath(path)
    if not file.endswith(".py"):
        if arguments:
            raise InputError(f"{file}: a trace takes no arguments, got {' '.join(arguments)}")
        flow = "" if lists_problems else None
        return _profile_trace(file, how.device, how.precision, how.skip or 0, flow)
    _check_for_gpu(file)
    skip = _SKIPPED_CALLS if how.skip is None else how.skip
    with tempfile.TemporaryDirectory(prefix="solkit-profile-") as folder:
        own = str(Path(folder) / "trace.json")
        trace = own if how.trace_out is None else os.fspath(how.trace_out)
        flow = str(Path(folder) / "flow.json") if lists_problems else None
        calls, limit_s = skip + how.calls, how.time_limit_s
        failure = script.record_trace(
            file, arguments, trace, calls=calls, time_limit_s=limit_s, flow=flow
        )
        try:
            result = _profile_trace(trace, how.device, how.precision, skip, flow)
        except InputError as error:
            raise InputError(f"{failure}; {error}" if failure else str(error)) from error
    return replace(result, path=file, failure=failure)


def _check_for_gpu(file: str) -> None:
    """Raise `UnsupportedError` if this machine has no GPU."""
    try:
        has_gpu = bool(nvml.live_devices())
    except UnknownDeviceError:  # there is a GPU: --device may name a similar one
        has_gpu = True
    if not has_gpu:
        raise UnsupportedError(
            f"profiling {file} needs a GPU, and this machine has none; a trace saved on another "
            "machine can be read here: solkit profile trace.json"
        )


def _profile_trace(
    path: str, device: str | Device | None, precision: str, skip: int, flow: str | None
) -> Profile:
    """Return the profile of a trace, with its problems unless `flow` is ``None``."""
    recording = read_trace(path)
    index, others = _busiest_gpu(recording)
    gpu = next((gpu for gpu in recording.gpus if gpu.index == index), None)
    target = _find_device(device, gpu, recording.path)
    within = find_window(match_activities(recording, index), skip)
    run = Run(within, units.cost_units(within, target))
    rows, saving_us = run.list_ops(target, precision)
    busy_us, waited = idle_time(within)
    return Profile(
        path=recording.path,
        device=target,
        span_ms=within.span_us / 1e3,
        steps=within.steps,
        busy_ms=busy_us / 1e3,
        idle=waited,
        ops=tuple(rows.values()),
        unbounded=tuple(run.unbounded_kernels()),
        saving_ms=saving_us / 1e3,
        notes=(*within.notes, *_make_notes(recording, gpu, target, others)),
        problems=() if flow is None else list_problems(run, rows, read_flow(flow)),
    )


def _busiest_gpu(recording: Recording) -> tuple[int, list[int]]:
    """Return the busiest GPU, and the others; raises `InputError` if nothing ran on any."""
    busy: dict[int, float] = {}
    for activity in recording.activities:
        busy[activity.device] = busy.get(activity.device, 0.0) + activity.duration_us
    if not busy:
        raise InputError(
            f"{recording.path}: nothing ran on a GPU in this trace; record one on a GPU, with "
            "ProfilerActivity.CUDA among the profiler's activities"
        )
    first, *others = sorted(busy, key=lambda index: -busy[index])
    return first, others


def _find_device(requested: str | Device | None, gpu: Gpu | None, path: str) -> Device:
    if isinstance(requested, Device):
        return requested
    if requested is not None:
        return calibrated(catalogue.find(requested))
    if gpu is None or not gpu.name:
        raise UnknownDeviceError(f"{path} names no GPU: say which it was recorded on with --device")
    try:
        return calibrated(catalogue.find(gpu.name))
    except UnknownDeviceError as error:
        raise UnknownDeviceError(f"{path}: {error}; --device takes the nearest one") from error


def _make_notes(
    recording: Recording, gpu: Gpu | None, device: Device, others: Sequence[int]
) -> Iterator[str]:
    if not recording.has_shapes:
        yield (
            "No op's arguments were recorded, so nothing has a bound: profile with "
            "record_shapes=True."
        )
    if gpu and gpu.sm_count and gpu.sm_count != device.sm_count:
        yield (
            f"The trace's GPU ({gpu.name or 'unnamed'}) has {gpu.sm_count} SMs; it is compared "
            f"with the {device.name}, which has {device.sm_count}."
        )
    if others:
        listed = ", ".join(map(str, sorted(others)))
        yield f"Only the busiest GPU is reported; there are {len(others)} more: {listed}."
