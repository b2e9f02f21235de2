"""The GPU's time: which part of a recording counts, when the GPU was idle, and why.

The window reaches from the first step that counts to the end of the last; without steps, from the
first to the last activity. Host and GPU run apart, so the window is the GPU's: it begins when the
GPU has done what was launched before, and ends no earlier than the last activity launched within.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solkit.core import IdleTime
from solkit.errors import InputError
from solkit.profiling.matching import NONE, Matching
from solkit.profiling.trace_reader import Activity, HostCall, Step


@dataclass(frozen=True)
class Window:
    """The part of a recording that counts."""

    matching: Matching  # what ran on the GPU
    start_us: float  # on the GPU's side
    end_us: float
    host_end_us: float  # when the host's part ended; minus infinity without steps
    steps: int  # number of steps; 0 if none were recorded
    indices: tuple[int, ...]  # into `Matching.activities`, in order of their start
    notes: tuple[str, ...] = ()  # what was left out, each a sentence

    @property
    def span_us(self) -> float:
        """Length of the window."""
        return self.end_us - self.start_us

    @property
    def activities(self) -> list[Activity]:
        """Activities in the window, in order of start."""
        return [self.matching.activities[i] for i in self.indices]

    @property
    def calls(self) -> list[HostCall | None]:
        """The host call that launched each activity; ``None`` if it was not recorded."""
        calls = (self.matching.calls[i] for i in self.indices)
        return [self.matching.recording.calls[call] if call != NONE else None for call in calls]


def find_window(matching: Matching, skip: int = 0) -> Window:
    """Find the window.

    Args:
        matching: what ran on the GPU.
        skip: steps to leave out at the beginning; at least one is kept.

    Raises:
        InputError: nothing ran on the GPU within the steps.
    """
    recording, activities = matching.recording, matching.activities
    steps = recording.steps[min(skip, len(recording.steps) - 1) :] if recording.steps else []
    launched = [recording.calls[call].start_us if call != NONE else None for call in matching.calls]
    within = _launched_within(activities, launched, steps)
    if not within:
        raise InputError(f"{recording.path}: nothing was launched within its steps")
    first = activities[within[0]].start_us
    gpu_end = max(activities[i].end_us for i in within)
    if not steps:
        return Window(matching, first, gpu_end, -math.inf, 0, tuple(within))
    chosen = set(within)
    earlier = [(i, a) for i, a in enumerate(activities) if i not in chosen and a.start_us < first]
    start = min(max([steps[0].start_us, *(a.end_us for _, a in earlier)]), first)
    host_end = steps[-1].end_us
    notes = _left_out_note([a for i, a in earlier if launched[i] is None])
    end = max(gpu_end, host_end)
    return Window(matching, start, end, host_end, len(steps), tuple(within), notes)


def _launched_within(
    activities: Sequence[Activity], launched: Sequence[float | None], steps: Sequence[Step]
) -> list[int]:
    """List activities launched within the steps, and those of unknown launch that ran after one."""
    if not steps:
        return list(range(len(activities)))
    start, end = steps[0].start_us, steps[-1].end_us
    inside = [time is not None and start <= time <= end for time in launched]
    starts_us = [a.start_us for a, is_inside in zip(activities, inside) if is_inside]
    since = min(starts_us, default=start)
    return [
        i
        for i, activity in enumerate(activities)
        if inside[i] or (launched[i] is None and since <= activity.start_us <= end)
    ]


def _left_out_note(earlier: Sequence[Activity]) -> tuple[str, ...]:
    if not earlier:
        return ()
    total_ms = sum(activity.duration_us for activity in earlier) / 1e3
    return (
        f"{len(earlier)} kernels and copies ({total_ms:.3g} ms) were launched before the recording "
        "began: they are left out.",
    )


def idle_time(within: Window) -> tuple[float, IdleTime]:
    """Return the GPU's busy time in a window, in us, and its idle time by cause."""
    waits = sorted(call.end_us for call in within.matching.recording.calls if is_waiting(call))
    activities, calls = within.activities, within.calls
    host = wait = queue = 0.0
    for start, end, following in _idle_gaps(activities, within):
        call = calls[following] if following != NONE else None
        if following != NONE and (call is None or call.start_us < start):
            queue += end - start
            continue
        host += end - start
        position = bisect_right(waits, end)
        if position and waits[position - 1] >= start:
            wait += end - start
    return within.span_us - host - queue, IdleTime(host / 1e3, wait / 1e3, queue / 1e3)


def is_waiting(call: HostCall) -> bool:
    """Tell whether a call, by its name, returns only when the GPU has reached it."""
    return "Synchronize" in call.name or call.name in ("cudaMemcpy", "cuMemcpyDtoH_v2")


def _idle_gaps(
    activities: Sequence[Activity], within: Window
) -> Iterator[tuple[float, float, int]]:
    """Yield idle times: from, to, and the index of the next activity (`NONE` at the end)."""
    free = within.start_us
    for index, activity in enumerate(activities):
        if activity.start_us > free:
            yield free, activity.start_us, index
        free = max(free, activity.end_us)
    if within.end_us > free:
        yield free, within.end_us, NONE
