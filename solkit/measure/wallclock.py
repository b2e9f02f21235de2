"""Whether the times that the candidate's process tells agree with the referee's own clock.

CUPTI sees its own process alone, so a candidate's times come from the process that the candidate
runs in. The referee asks that process for N calls in a row and for 2N, and times both by its own
clock, from the request to the answer, which comes when the GPU is done::

    slope = (t(2N) - t(N)) / N

What a request costs in itself falls out of the difference. A call cannot have taken the GPU longer
than the slope, so a told time above it means a cold L2 and nothing more; a told time far *below*
it is a lie, unless it is the host that takes so long to launch. Then fewer calls are queued behind
something that keeps the GPU busy meanwhile, so that the slope is again the GPU's time.

How strong this is. A told time under half the slope, less some µs, is contradicted: a candidate
cannot gain more than a factor 2 by lying. (Not less than 2: under a 700 W limit an H100's clock
falls by a third in a row of large products.) The µs are 5, and a request's jitter over the N calls,
some 100 µs and up to 500 where rows alike differ by as much: 6 for a kernel that is launched as
fast as it runs, 10 behind a host of 50 µs a call, on a quiet machine.
So under 10 µs the check tells next to nothing: a 2 µs kernel may be told as 0.5. A candidate that
waits for the GPU within a call, or keeps the host busy for over 100 ms, cannot be queued: it gets
the slope for its time. What the check cannot see is a candidate that really is as fast, in the rows
as well, by not doing the work: the outputs of the rows that count are judged for that. Nor does it
see one that finds out, from the frames of SolKit's own code in its process, which rows are the
short ones, and dawdles in these alone: that flattens the slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Calls", "WallClock", "check"]

_FACTOR = 2.0
_GRAIN_MS = 0.005
_JITTER_MS = 0.1
_MOST_JITTER_MS = 0.5  # a candidate may disturb its own rows: that must not excuse it
_ROW_MS = 2.0
_MOST_CALLS = 100
_SLOW_MS = 10.0
_MOST_QUEUED = 700  # a stream takes about a thousand launches before the host has to wait
_LEAST_LAUNCH_MS = 0.0025  # so a call has at most its slope over this of them
_MOST_HIDDEN_MS = 400.0
_MARGIN = 1.5  # by which what hides the host is to last longer than the host
_REQUEST_MS = 2.0
_SPARE = 0.1  # the share of it that is to be left when the host is done
_TRIES = 5
_LEAST_REPEATS, _PLAIN_REPEATS, _QUEUED_REPEATS = 2, 3, 12

_NOTICED_MS = 20.0  # a wait that long cannot be mistaken for a slow request


class Calls(Protocol):
    """What the candidate's process is asked for; times are the referee's."""

    def row(self, calls: int, behind_s: float) -> float:
        """Seconds that so many calls take, queued behind something that takes so many seconds."""
        ...

    def launch(self, calls: int, behind_s: float) -> float:
        """Seconds until so many calls, queued like that, were launched, but need not be over."""
        ...

    def judge(self) -> None:
        """Judge the outputs of the last row, whose time is to count against the candidate."""
        ...


@dataclass(frozen=True)
class WallClock:
    """What the referee's clock says of a told time.

    Attributes:
        slope_ms: milliseconds a call.
        calls: N.
        contradiction: a sentence where the told time cannot be true.
        note: a sentence where the told time cannot be confirmed, so that the slope is to count.
    """

    slope_ms: float
    calls: int
    contradiction: str | None = None
    note: str | None = None


def check(told_ms: float, calls: Calls) -> WallClock:
    """Hold a told time, the upper end of the told median's interval, against rows of calls."""
    count = max(1, min(_MOST_CALLS, math.ceil(_ROW_MS / told_ms)))
    repeats = _PLAIN_REPEATS if told_ms < _SLOW_MS else 1
    plain = _rows(calls, told_ms, count, 0.0, repeats)
    if plain.agrees_with(told_ms):
        return WallClock(plain.slope_ms, count)
    plain_ms = plain.slope_ms
    count = max(1, min(count, int(_MOST_QUEUED * _LEAST_LAUNCH_MS / (2 * plain_ms))))
    queued = _queued(calls, told_ms, count, 2 * count * plain_ms)
    if queued is None:
        why = "waits for the GPU" if _waits(calls, plain_ms) else "may keep the host busy"
        note = (
            f"Timed by the referee's clock, by which a call takes {plain_ms:.4g} ms: it {why}, so "
            f"that the {told_ms:.4g} ms of the GPU's own time can't be confirmed."
        )
        return WallClock(plain_ms, count, note=note)
    if queued.agrees_with(told_ms):
        return WallClock(queued.slope_ms, count)
    contradiction = (
        f"{told_ms:.4g} ms a call were told by the candidate's process, but by the referee's clock "
        f"{count} more calls took {queued.slope_ms * count:.4g} ms, which is "
        f"{queued.slope_ms:.4g} ms a call."
    )
    return WallClock(queued.slope_ms, count, contradiction=contradiction)


@dataclass(frozen=True)
class _Rows:
    """Times of rows of N calls and of rows of 2N, the least first: what disturbs can only add."""

    calls: int
    single_ms: tuple[float, ...]
    double_ms: tuple[float, ...]

    @property
    def slope_ms(self) -> float:
        return max(self.double_ms[0] - self.single_ms[0], 0.0) / self.calls

    @property
    def jitter_ms(self) -> float:
        """What the difference of the two least ones may be off by: as far as the next ones are."""
        apart = sum(times[1] - times[0] for times in (self.single_ms, self.double_ms) if times[1:])
        return min(max(_JITTER_MS, 2 * apart), _MOST_JITTER_MS)

    def agrees_with(self, told_ms: float, jitter_ms: float | None = None) -> bool:
        jitter_ms = self.jitter_ms if jitter_ms is None else jitter_ms
        return self.slope_ms <= _FACTOR * told_ms + _GRAIN_MS + jitter_ms / self.calls


def _waits(calls: Calls, call_ms: float) -> bool:
    """Whether a call returns only when the GPU has done what was queued before it."""
    behind_ms = max(_NOTICED_MS, 3 * call_ms)
    if behind_ms > _MOST_HIDDEN_MS:
        return False
    return 1e3 * calls.launch(1, behind_ms / 1e3) > 0.8 * behind_ms


def _rows(calls: Calls, told_ms: float, count: int, behind_s: float, repeats: int) -> _Rows:
    """Rows of both kinds in turns, until they agree with what was told; at the least twice."""
    single_ms: list[float] = []
    double_ms: list[float] = []
    for repeat in range(1, repeats + 1):
        single_ms.append(1e3 * calls.row(count, behind_s))
        double_ms.append(1e3 * calls.row(2 * count, behind_s))
        if double_ms[-1] == min(double_ms):
            calls.judge()  # who does less work in the rows that count gains by it
        rows = _Rows(count, tuple(sorted(single_ms)), tuple(sorted(double_ms)))
        if repeat >= _LEAST_REPEATS and rows.agrees_with(told_ms, _JITTER_MS):
            break
    return rows


def _queued(calls: Calls, told_ms: float, count: int, host_ms: float) -> _Rows | None:
    """Rows in which the host, which takes some `host_ms` for 2N calls, is hidden.

    That it was shows in when all of 2N were launched, which is clearly before the GPU is done with
    N; ``None`` where that cannot be had. What a request costs in itself is in both of these times.
    """
    behind_ms = _MARGIN * host_ms + _REQUEST_MS
    repeats = _QUEUED_REPEATS if told_ms < _SLOW_MS else 1
    for _ in range(_TRIES):
        if behind_ms > _MOST_HIDDEN_MS:
            return None
        behind_s = behind_ms / 1e3
        launched_ms = 1e3 * min(calls.launch(2 * count, behind_s) for _ in range(_LEAST_REPEATS))
        if launched_ms < behind_ms:
            rows = _rows(calls, told_ms, count, behind_s, repeats)
            if rows.single_ms[0] >= launched_ms + _SPARE * behind_ms:
                return rows
        behind_ms *= 2
    return None
