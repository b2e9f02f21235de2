"""The GPU's time: which part of a recording counts, when the GPU was idle, and why.

The window goes from the first step that counts to the end of the last, or, where the profiler
counted none, from the first to the last thing that ran. Host and GPU run apart, so it is the GPU's
window: it begins when the GPU has done what was launched before, and ends no earlier than the last
thing that was launched within.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solkit.errors import InputError
from solkit.profiling.matching import NONE, Matching
from solkit.profiling.trace_reader import Activity, HostCall, Recording, Step

__all__ = ["Idle", "Window", "idle", "is_waiting", "window"]


@dataclass(frozen=True)
class Window:
    """The part of a recording that counts.

    Attributes:
        start_us, end_us: on the GPU's side.
        host_end_us: when the host's part ended; minus infinity where there are no steps.
        steps: how many steps it holds; 0 where none were counted.
        activities: indices into `Matching.activities`, in order of their start.
        notes: what was left out, each a sentence.
    """

    start_us: float
    end_us: float
    host_end_us: float
    steps: int
    activities: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def span_us(self) -> float:
        """How long it is."""
        return self.end_us - self.start_us


def window(recording: Recording, matching: Matching, skip: int = 0) -> Window:
    """Find the window.

    Args:
        recording: the trace.
        matching: what ran on the GPU in question.
        skip: steps to pass over at the beginning; at least one is kept.

    Raises:
        InputError: nothing ran on the GPU within the steps.
    """
    steps = recording.steps[min(skip, len(recording.steps) - 1) :] if recording.steps else []
    launched = [recording.calls[call].start_us if call != NONE else None for call in matching.calls]
    within = _launched_within(matching.activities, launched, steps)
    if not within:
        raise InputError(f"{recording.path}: nothing was launched within its steps")
    first = matching.activities[within[0]].start_us
    gpu_end = max(matching.activities[i].end_us for i in within)
    if not steps:
        return Window(first, gpu_end, -math.inf, 0, tuple(within))
    chosen = set(within)
    earlier = [
        (i, a) for i, a in enumerate(matching.activities) if i not in chosen and a.start_us < first
    ]
    start = max([steps[0].start_us, *(a.end_us for _, a in earlier)])
    host_end = steps[-1].end_us
    notes = _left_out([a for i, a in earlier if launched[i] is None])
    end = max(gpu_end, host_end)
    return Window(min(start, first), end, host_end, len(steps), tuple(within), notes)


def _launched_within(
    activities: Sequence[Activity], launched: Sequence[float | None], steps: Sequence[Step]
) -> list[int]:
    """What was launched within the steps; where that is not known, what ran after such a launch."""
    if not steps:
        return list(range(len(activities)))
    start, end = steps[0].start_us, steps[-1].end_us
    inside = [time is not None and start <= time <= end for time in launched]
    known = [a.start_us for a, is_inside in zip(activities, inside) if is_inside]
    since = min(known, default=start)
    return [
        i
        for i, activity in enumerate(activities)
        if inside[i] or (launched[i] is None and since <= activity.start_us <= end)
    ]


def _left_out(earlier: Sequence[Activity]) -> tuple[str, ...]:
    if not earlier:
        return ()
    total_ms = sum(activity.duration_us for activity in earlier) / 1e3
    return (
        f"{len(earlier)} kernels and copies ({total_ms:.3g} ms) were launched before the recording "
        "began: they are left out.",
    )


# --------------------------------------------------------------------------------------- idle


@dataclass(frozen=True)
class Idle:
    """When nothing ran on the GPU within the window, and what it waited for.

    Attributes:
        busy_us: something ran.
        host_us: the host launched what came next only after the GPU had run dry.
        wait_us: the part of `host_us` before which the host itself had waited for the GPU.
        queue_us: between things that had been launched ahead, and where nothing is known.
    """

    busy_us: float
    host_us: float
    wait_us: float
    queue_us: float


def idle(recording: Recording, matching: Matching, within: Window) -> Idle:
    """Tell the GPU's idle time apart by its cause.

    Args:
        recording: the trace.
        matching: what ran on the GPU in question.
        within: the window.
    """
    waits = sorted(call.end_us for call in recording.calls if is_waiting(call))
    host = wait = queue = 0.0
    for start, end, following in _gaps(matching.activities, within):
        call = matching.calls[following] if following != NONE else NONE
        late = following == NONE or (call != NONE and recording.calls[call].start_us >= start)
        if not late:
            queue += end - start
            continue
        host += end - start
        position = bisect_right(waits, end)
        if position and waits[position - 1] >= start:
            wait += end - start
    return Idle(within.span_us - host - queue, host, wait, queue)


def is_waiting(call: HostCall) -> bool:
    """Whether a call, by its name, returns only when the GPU has got so far."""
    return "Synchronize" in call.name or call.name in ("cudaMemcpy", "cuMemcpyDtoH_v2")


def _gaps(activities: Sequence[Activity], within: Window) -> Iterator[tuple[float, float, int]]:
    """When nothing runs: from, to, and the index of what comes then (`NONE` at the end)."""
    free = within.start_us
    for index in within.activities:
        if activities[index].start_us > free:
            yield free, activities[index].start_us, index
        free = max(free, activities[index].end_us)
    if within.end_us > free:
        yield free, within.end_us, NONE
