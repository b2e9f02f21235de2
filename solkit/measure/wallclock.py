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
falls by a third in a row of large products.) The µs are 5, and a request's jitter of some 100 over
the N calls: 6 for a kernel that is launched as fast as it runs, 10 behind a host of 50 µs a call.
So under 10 µs the check tells next to nothing: a 2 µs kernel may be told as 0.5. A candidate that
waits for the GPU within a call, or keeps the host busy for over 100 ms, cannot be queued: it gets
the slope for its time. What the check cannot see is a candidate that really is as fast, in the rows
as well, by not doing the work: the outputs of each row are judged for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["WallClock", "check"]

_FACTOR = 2.0
_GRAIN_MS = 0.005
_JITTER_MS = 0.1
_ROW_MS = 2.0
_MOST_CALLS = 100
_SLOW_MS = 10.0
_MOST_QUEUED = 700  # a stream takes about a thousand launches before the host has to wait
_LEAST_LAUNCH_MS = 0.0025  # so a call has at most its slope over this of them
_MOST_HIDDEN_MS = 400.0
_MARGIN = 1.5  # by which what hides the host is to last longer than the host
_SPARE = 0.1  # the share of it that is to be left when the host is done
_TRIES = 4

_NOTICED_MS = 20.0  # a wait that long cannot be mistaken for a slow request

Row = Callable[[int, float], float]
Launch = Callable[[int, float], float]


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


def check(told_ms: float, row: Row, launch: Launch) -> WallClock:
    """Hold a told time against rows of calls.

    Args:
        told_ms: the upper end of the told median's interval.
        row: seconds that so many calls take, queued behind something that takes so many seconds.
        launch: seconds until so many calls, queued like that, were launched, but need not be over.
    """
    calls = max(1, min(_MOST_CALLS, math.ceil(_ROW_MS / told_ms)))
    repeats = 3 if told_ms < _SLOW_MS else 1
    plain_ms = _rows(row, calls, 0.0, repeats).slope_ms
    if _agrees(told_ms, plain_ms, calls):
        return WallClock(plain_ms, calls)
    calls = max(1, min(calls, int(_MOST_QUEUED * _LEAST_LAUNCH_MS / (2 * plain_ms))))
    waits = _waits(launch, plain_ms)
    queued = None if waits else _queued(row, launch, calls, 2 * calls * plain_ms, repeats)
    if queued is None:
        why = "waits for the GPU" if waits else "may keep the host busy"
        note = (
            f"Timed by the referee's clock, by which a call takes {plain_ms:.4g} ms: it {why}, so "
            f"that the {told_ms:.4g} ms of the GPU's own time can't be confirmed."
        )
        return WallClock(plain_ms, calls, note=note)
    if _agrees(told_ms, queued.slope_ms, calls):
        return WallClock(queued.slope_ms, calls)
    contradiction = (
        f"{told_ms:.4g} ms a call were told by the candidate's process, but by the referee's clock "
        f"{calls} more calls took {queued.slope_ms * calls:.4g} ms, which is "
        f"{queued.slope_ms:.4g} ms a call."
    )
    return WallClock(queued.slope_ms, calls, contradiction=contradiction)


@dataclass(frozen=True)
class _Rows:
    """The least time of a row of N calls and of one of 2N: what disturbs can only add."""

    calls: int
    single_ms: float
    double_ms: float

    @property
    def slope_ms(self) -> float:
        return max(self.double_ms - self.single_ms, 0.0) / self.calls


def _waits(launch: Launch, call_ms: float) -> bool:
    """Whether a call returns only when the GPU has done what was queued before it."""
    behind_ms = max(_NOTICED_MS, 3 * call_ms)
    if behind_ms > _MOST_HIDDEN_MS:
        return False
    return 1e3 * launch(1, behind_ms / 1e3) > 0.8 * behind_ms


def _rows(row: Row, calls: int, behind_s: float, repeats: int) -> _Rows:
    single_s = min(row(calls, behind_s) for _ in range(repeats))
    double_s = min(row(2 * calls, behind_s) for _ in range(repeats))
    return _Rows(calls, 1e3 * single_s, 1e3 * double_s)


def _queued(row: Row, launch: Launch, calls: int, host_ms: float, repeats: int) -> _Rows | None:
    """Rows in which the host, which takes some `host_ms` for 2N calls, is hidden.

    That it was shows in when all of 2N were launched, which is clearly before the GPU is done with
    N; ``None`` where that cannot be had. What a request costs in itself is in both of these times.
    """
    behind_ms = _MARGIN * host_ms
    for _ in range(_TRIES):
        if behind_ms > _MOST_HIDDEN_MS:
            return None
        launched_ms = 1e3 * max(launch(2 * calls, behind_ms / 1e3) for _ in range(repeats))
        rows = _rows(row, calls, behind_ms / 1e3, repeats)
        if rows.single_ms >= launched_ms + _SPARE * behind_ms:
            return rows
        behind_ms *= 2
    return None


def _agrees(told_ms: float, slope_ms: float, calls: int) -> bool:
    return slope_ms <= _FACTOR * told_ms + _GRAIN_MS + _JITTER_MS / calls
