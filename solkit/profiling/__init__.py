"""Profiles: the kernels of a real run, each with its op, its bound, and what closing its gap saves.

::

    trace ─ recording ─► events ─ matching ─► op of each kernel ─ units, replay ─► bound of each op
                            └─ timeline ─► window, idle time ─────── savings ─► Profile
    script ─ script, _runner ─► trace

The public function is `solkit.profile`. All but `replay` and `_runner` does without torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from solkit.core import Device, IdleTime, Profile
from solkit.errors import InputError, UnknownDeviceError
from solkit.profiling import units
from solkit.profiling.matching import match
from solkit.profiling.recording import Gpu, Recording, read
from solkit.profiling.rows import Run
from solkit.profiling.timeline import idle, window
from solkit.roofline import devices as catalogue
from solkit.roofline.calibration import calibrated

__all__ = ["profile_trace"]


def profile_trace(
    path: str | os.PathLike[str],
    *,
    device: str | Device | None = None,
    precision: str = "tolerance",
    skip: int = 0,
) -> Profile:
    """Say where the time of a recorded run went, and what each op's gap is worth.

    Args:
        path: a Chrome trace of PyTorch's profiler, made with ``record_shapes=True``.
        device: the GPU that it was recorded on, by the catalogue; the one that it names otherwise.
        precision: see `solkit.roofline.precision.Rule`.
        skip: steps (``ProfilerStep#``) to pass over at the beginning.

    Raises:
        InputError: the trace cannot be read, or nothing ran on a GPU in it.
        UnknownDeviceError: the catalogue lacks its GPU, or `device`.
    """
    recording = read(os.fspath(path))
    index, others = _busiest(recording)
    gpu = next((gpu for gpu in recording.gpus if gpu.index == index), None)
    target = _device(device, gpu, recording.path)
    matching = match(recording, index)
    within = window(recording, matching, skip)
    costs = units.costs(recording, matching, within, target)
    run = Run(recording, matching, within, costs)
    ops, saving_us = run.ops(target, precision)
    waited = idle(recording, matching, within)
    return Profile(
        path=recording.path,
        device=target,
        span_ms=within.span_us / 1e3,
        steps=within.steps,
        busy_ms=waited.busy_us / 1e3,
        idle=IdleTime(waited.host_us / 1e3, waited.wait_us / 1e3, waited.queue_us / 1e3),
        ops=ops,
        unbounded=tuple(run.unbounded()),
        saving_ms=saving_us / 1e3,
        notes=(*within.notes, *_notes(recording, gpu, target, others)),
    )


# ------------------------------------------------------------------------------------ device


def _busiest(recording: Recording) -> tuple[int, list[int]]:
    """The GPU on which most ran, and the others.

    Raises:
        InputError: nothing ran on any.
    """
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


def _device(asked: str | Device | None, gpu: Gpu | None, path: str) -> Device:
    if isinstance(asked, Device):
        return asked
    if asked is not None:
        return calibrated(catalogue.find(asked))
    if gpu is None or not gpu.name:
        raise UnknownDeviceError(f"{path} names no GPU: say which it was recorded on with --device")
    try:
        return calibrated(catalogue.find(gpu.name))
    except UnknownDeviceError as error:
        raise UnknownDeviceError(f"{path}: {error}; --device takes the nearest one") from error


def _notes(
    recording: Recording, gpu: Gpu | None, device: Device, others: Sequence[int]
) -> Iterator[str]:
    if not recording.has_shapes:
        yield (
            "No op's arguments were recorded, so nothing has a bound: profile with "
            "record_shapes=True."
        )
    if gpu and gpu.sm_count and gpu.sm_count != device.sm_count:
        yield (
            f"The trace's GPU, {gpu.name}, has {gpu.sm_count} SMs, the {device.name} that it is "
            f"held against {device.sm_count}."
        )
    if others:
        listed = ", ".join(map(str, sorted(others)))
        yield f"Only the busiest GPU is told of; there are {len(others)} more: {listed}."
