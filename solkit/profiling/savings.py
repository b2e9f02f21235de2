"""Savings end to end of a faster op: the recording replayed with shorter kernels.

By Amdahl's law (AFIPS 1967) an op that takes the share f of the time and becomes s times faster
gives a speed-up of 1/((1 - f) + f/s), if everything after it moves up. If kernels overlap, or the
GPU waits for the host, it does not. So the timeline is replayed, as in Daydream (Zhu, Phanishayee
and Pekhimenko, USENIX ATC 2020), and the remaining time is compared. On a GPU that one stream keeps
busy throughout, the two agree.

Notation
    l_k, s_k, e_k    launch, start and end of activity k as recorded; a prime: replayed
    L                the least time from a launch to a start in the recording
    r_k              when k could start: the latest of l_k + L, the end of the activity before it on
                     its stream, and the end of the one that it seems to wait for on another stream
    c_k              by how much k is cut
    h                by how much the host is ahead of the recording

::

    s'_k = r'_k + (s_k - r_k)        other delays stay
    e'_k = s'_k + (e_k - s_k) - c_k
    l'_k = l_k - h

A call that waits for the GPU keeps its delay after the activity that it waited for, but does not
end before it begins; h is what it gained. A call waits if its name says so (`is_waiting`), if what
it launched had ended before it did, or if the launch queue was full. One host is assumed to make
all calls: PyTorch's threads hand over to one another. Its own work takes as long as before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from solkit.profiling.matching import NONE
from solkit.profiling.timeline import Window, is_waiting
from solkit.profiling.trace_reader import Activity, HostCall

_QUEUE = 1000
"""Launches outstanding at which one waits for room. CUDA does not document it; 1024 is reported."""

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cuts:
    """Cuts of activities: in each what-if, those of one op are shorter."""

    question: Sequence[int]  # for each activity of the window, the what-if that cuts it, or `NONE`
    cut_us: Sequence[float]  # by how much
    count: int  # number of what-ifs


def savings_us(within: Window, cuts: Cuts) -> tuple[Times, float]:
    """Return what each what-if saves of a window, and what all of them save together."""
    activities = within.activities
    replay = _Replay(cuts, [activity.duration_us for activity in activities])
    for event in _sorted_events(activities, within.calls, within.matching.recording.calls):
        event.apply_event(replay)
    saved = within.end_us - np.maximum(replay.last, within.host_end_us - replay.ahead)
    return saved[:-1], float(saved[-1])


class _Replay:
    """The state of the replay: an entry per what-if, and one for all of them together."""

    def __init__(self, cuts: Cuts, durations: Sequence[float]) -> None:
        self.cuts, self.durations = cuts, durations
        self.ahead: Times = np.zeros(cuts.count + 1)  # of the host, compared with the recording
        self.last: Times = np.full(cuts.count + 1, -np.inf)  # when the last activity so far ends
        self.launches: dict[int, Times] = {}  # when launched activities may start
        self.ends: dict[int, Times] = {}  # of activities that something may still wait for


@dataclass(frozen=True)
class _Launch:
    """An activity is launched: it may start at `ready_us`."""

    activity: int
    time_us: float
    ready_us: float

    def apply_event(self, replay: _Replay) -> None:
        replay.launches[self.activity] = self.ready_us - replay.ahead


@dataclass(frozen=True)
class _Wait:
    """A call of the host returns, `tail_us` after the end of the activity that it waited for."""

    activity: int
    time_us: float
    start_us: float
    tail_us: float

    def apply_event(self, replay: _Replay) -> None:
        begun = self.start_us - replay.ahead
        replay.ahead = self.time_us - np.maximum(replay.ends[self.activity] + self.tail_us, begun)


@dataclass(frozen=True)
class _Start:
    """An activity starts, `delay_us` after it could."""

    activity: int
    time_us: float
    previous: int  # the activity before it on its stream, or `NONE`
    other: int  # the one on another stream that it seems to have waited for, or `NONE`
    delay_us: float
    is_last_wait: bool  # whether nothing else waits for `previous`

    def apply_event(self, replay: _Replay) -> None:
        ready = np.full_like(replay.last, -np.inf)
        for index in (self.previous, self.other):
            if index != NONE:
                np.maximum(ready, replay.ends[index], out=ready)
        if self.activity in replay.launches:
            np.maximum(ready, replay.launches.pop(self.activity), out=ready)
        if self.is_last_wait:
            del replay.ends[self.previous]
        bound = np.isfinite(ready[-1])
        end = ready + self.delay_us if bound else np.full_like(ready, self.time_us)
        end += replay.durations[self.activity]
        question = replay.cuts.question[self.activity]
        if question != NONE:
            end[[question, -1]] -= replay.cuts.cut_us[self.activity]
        replay.ends[self.activity] = end
        np.maximum(replay.last, end, out=replay.last)


_Event = Union[_Launch, _Wait, _Start]


def _sorted_events(
    activities: Sequence[Activity], calls: Sequence[HostCall | None], host: Sequence[HostCall]
) -> list[_Event]:
    """Sort all events by time; at one time, those that others may wait for come first."""
    latencies = (a.start_us - c.start_us for a, c in zip(activities, calls) if c)
    latency_us = max(0.0, min(latencies, default=0.0))
    launches = [
        _Launch(i, call.start_us, call.start_us + latency_us)
        for i, call in enumerate(calls)
        if call and call.start_us <= activities[i].start_us
    ]
    ends = _Ends(activities)
    waits = list(_find_waits(activities, calls, host, ends))
    starts = _find_starts(
        activities, {launch.activity: launch.ready_us for launch in launches}, ends
    )
    starts = _with_last_waits(starts, {wait.activity for wait in waits})
    return sorted([*launches, *starts, *waits], key=lambda event: event.time_us)


class _Ends:
    """Finds the activity that ended last before a given time."""

    def __init__(self, activities: Sequence[Activity]) -> None:
        self._order = sorted(range(len(activities)), key=lambda i: activities[i].end_us)
        self._times = [activities[i].end_us for i in self._order]

    def count_ended(self, time_us: float) -> int:
        """Count the activities that had ended."""
        return bisect_right(self._times, time_us)

    def latest_ended(self, time_us: float) -> int:
        """Return the last of them, or `NONE`."""
        count = self.count_ended(time_us)
        return self._order[count - 1] if count else NONE


def _find_starts(
    activities: Sequence[Activity], launched: Mapping[int, float], ends: _Ends
) -> list[_Start]:
    starts: list[_Start] = []
    latest: dict[Any, int] = {}
    for i, activity in enumerate(activities):
        previous = latest.get(activity.stream, NONE)
        ready_us = launched.get(i, -math.inf)
        if previous != NONE:
            ready_us = max(ready_us, activities[previous].end_us)
        other = ends.latest_ended(activity.start_us)
        if other != NONE and activities[other].end_us > ready_us and other != i:
            ready_us = activities[other].end_us
        else:
            other = NONE
        delay_us = activity.start_us - ready_us if math.isfinite(ready_us) else 0.0
        starts.append(_Start(i, activity.start_us, previous, other, delay_us, False))
        latest[activity.stream] = i
    return starts


def _with_last_waits(starts: Sequence[_Start], waited_for: AbstractSet[int]) -> list[_Start]:
    """Mark the ends to forget: 10^5 ends in 10^2 what-ifs would take 100 MB."""
    shared = waited_for | {start.other for start in starts}
    return [
        replace(start, is_last_wait=start.previous != NONE and start.previous not in shared)
        for start in starts
    ]


def _find_waits(
    activities: Sequence[Activity],
    calls: Sequence[HostCall | None],
    host: Sequence[HostCall],
    ends: _Ends,
) -> Iterator[_Wait]:
    """Yield the calls that waited for an activity, which ended during the call."""
    own = {id(call): i for i, call in enumerate(calls) if call}
    launched = sorted(call.start_us for call in calls if call)
    for call in host:
        mine = own.get(id(call), NONE)
        outstanding = bisect_right(launched, call.start_us) - ends.count_ended(call.start_us)
        if mine != NONE and activities[mine].end_us <= call.end_us:
            last = mine
        elif is_waiting(call) or outstanding >= _QUEUE:
            last = ends.latest_ended(call.end_us)
        else:
            continue
        if last != NONE and activities[last].end_us >= call.start_us:
            tail_us = call.end_us - activities[last].end_us
            yield _Wait(last, call.end_us, call.start_us, tail_us)
