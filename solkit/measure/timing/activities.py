"""The time of each call, from what the profiler recorded.

A call is a `torch.profiler.record_function` range. Its GPU activities (kernels, copies, memsets)
are those whose launch, a CUDA runtime or driver call with the same correlation id, began on the CPU
within that range, on whatever thread and for whatever stream; the kernels of a CUDA graph all carry
the id of the graph's launch. Kineto records only some driver calls (libkineto
CuptiCbidRegistry.cpp: kernel launches, not copies), so an activity with no recorded launch is
matched by the GPU annotations instead: Kineto adds one per range and stream, over the activities
launched within the range (GenericActivityProfiler.cpp, handleGpuActivity).
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class ActivityError(Exception):
    """The recorded activities do not determine the time of each call."""


class Kind(enum.Enum):
    """The kind of a profiler event."""

    RANGE = "range"
    """A `record_function` range on the CPU."""
    LAUNCH = "launch"
    """A CUDA runtime or driver call."""
    GPU = "gpu"
    """A kernel, a copy or a memset on the GPU."""
    GPU_RANGE = "gpu range"
    """Launches of a `record_function` range into a stream, from first start to last end."""


class Activity(NamedTuple):
    """One profiler event; a tuple, since there are thousands."""

    kind: Kind  # of the event
    name: str  # of the range, the CUDA call or the kernel
    start_ns: int  # on the profiler's clock, one for CPU and GPU
    end_ns: int
    correlation: int = 0  # joins a launch and what it launched; unused for ranges
    stream: tuple[int, int] = (0, 0)  # (device, stream) on the GPU; unused on the CPU


@dataclass(frozen=True)
class CallTime:
    """The time of one call."""

    span_ms: float  # last end minus first start over all that the call ran on the GPU
    kernel_sum_ms: float | None  # the sum of their durations; ``None`` if only the span is known


def call_times(activities: Iterable[Activity], labels: Sequence[str]) -> list[CallTime]:
    """Return the time of each labelled call, in the order of `labels`.

    Raises:
        ActivityError: a call has no range or no GPU activity, or an activity is ambiguous.
    """
    of_call = _activities_of(activities, labels)
    return [_call_time(label, of_call[label]) for label in labels]


def kernels_ms(activities: Iterable[Activity], labels: Sequence[str]) -> dict[str, float]:
    """Return total milliseconds by name of what ran on the GPU in the labelled calls.

    Raises:
        ActivityError: as for `call_times`.
    """
    times_ms: dict[str, float] = {}
    for events in _activities_of(activities, labels).values():
        for event in events:
            taken_ms = (event.end_ns - event.start_ns) / 1e6
            times_ms[event.name] = times_ms.get(event.name, 0.0) + taken_ms
    return times_ms


def _activities_of(
    activities: Iterable[Activity], labels: Sequence[str]
) -> dict[str, list[Activity]]:
    """List what each labelled call ran on the GPU."""
    events = list(activities)
    names = set(labels)
    ranges = sorted(
        (e.start_ns, e.end_ns, e.name) for e in events if _is_named_kind(e, Kind.RANGE, names)
    )
    owner_of_launch = {
        e.correlation: _owner_label(ranges, e.start_ns) for e in events if e.kind is Kind.LAUNCH
    }
    annotations = [e for e in events if _is_named_kind(e, Kind.GPU_RANGE, names)]
    of_call: dict[str, list[Activity]] = {label: [] for label in labels}
    for event in events:
        if event.kind is Kind.GPU:
            owner = (
                owner_of_launch[event.correlation]
                if event.correlation in owner_of_launch
                else _annotated_label(annotations, event)
            )
            if owner is not None:
                of_call[owner].append(event)
    if names - {name for _, _, name in ranges} or len(ranges) != len(labels):
        raise ActivityError(f"{len(ranges)} ranges recorded for {len(labels)} calls")
    return of_call


def _is_named_kind(event: Activity, kind: Kind, names: set[str]) -> bool:
    return event.kind is kind and event.name in names


def _owner_label(ranges: Sequence[tuple[int, int, str]], time_ns: int) -> str | None:
    """Return the label of the range that a moment lies in; ``None`` between calls."""
    index = bisect.bisect_right(ranges, (time_ns, float("inf"), "")) - 1
    if index < 0 or time_ns > ranges[index][1]:
        return None
    return ranges[index][2]


def _annotated_label(annotations: Sequence[Activity], event: Activity) -> str:
    for span in annotations:
        inside = span.start_ns <= event.start_ns and event.end_ns <= span.end_ns
        if inside and span.stream == event.stream:
            return span.name
    raise ActivityError(f"the recording does not show which call ran {event.name!r}")


def _call_time(label: str, activities: Sequence[Activity]) -> CallTime:
    if not activities:
        raise ActivityError(f"no GPU activity recorded for the call {label}")
    span_ns = max(a.end_ns for a in activities) - min(a.start_ns for a in activities)
    return CallTime(span_ns / 1e6, sum(a.end_ns - a.start_ns for a in activities) / 1e6)
