"""Whether the times that the candidate's process tells agree with the referee's own clock.

CUPTI sees its own process alone, so a candidate's times come from the process that the candidate
runs in. The referee asks that process for N calls in a row and for 2N, and times both by its own
clock, from the request to the answer, which comes when the GPU is done::

    slope = (t(2N) - t(N)) / N

What a request costs in itself falls out of the difference. A call cannot have taken the GPU longer
than the slope, so a told time above it means a cold L2 and nothing more; a told time far *below*
it is a lie, unless it is the host that takes so long to launch. Then the calls are queued behind
something that keeps the GPU busy meanwhile, so that the slope is again the GPU's time.

How strong this is. A told time under half the slope less `_GRAIN_MS` is contradicted: a candidate
cannot gain more than a factor 2 by lying. (Not less than 2: under a 700 W limit an H100's clock
falls by a third in a row of large products.) Under 10 µs the grain is all there is: a request's
jitter of some 50 µs over N calls, so that a 2 µs kernel may be told as 0.5. And a candidate that
keeps the host busy for over 200 ms a call cannot be queued: for it the check tells nothing, and
says so. What it does not see at all is a candidate that really is
as fast, in the rows as well, by not doing the work: the outputs of each row are judged for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["WallClock", "check"]

_FACTOR = 2.0
_GRAIN_MS = 0.005
_ROW_MS = 2.0
_MOST_CALLS = 100
_HIDDEN_MS = 400.0  # of launching that can be hidden
_MARGIN = 1.5  # by which what hides it lasts longer
_SLOW_MS = 10.0

Row = Callable[[int, float], float]


@dataclass(frozen=True)
class WallClock:
    """What the referee's clock says of a told time.

    Attributes:
        slope_ms: milliseconds a call.
        calls: N.
        contradiction: a sentence where the told time cannot be true.
        note: a sentence where the check tells nothing.
    """

    slope_ms: float
    calls: int
    contradiction: str | None = None
    note: str | None = None


def check(told_ms: float, row: Row) -> WallClock:
    """Hold a told time against rows of calls.

    Args:
        told_ms: the upper end of the told median's interval.
        row: seconds that so many calls take, queued behind something that takes so many seconds.
    """
    calls = max(1, min(_MOST_CALLS, math.ceil(_ROW_MS / told_ms)))
    repeats = 3 if told_ms < _SLOW_MS else 1
    plain_ms = _slope_ms(row, calls, 0.0, repeats)
    if _agrees(told_ms, plain_ms, calls):
        return WallClock(plain_ms, calls)
    fewer = int(_HIDDEN_MS / (2 * plain_ms))
    if fewer < 1:
        note = (
            f"The referee's clock can't confirm the time: a call takes {plain_ms:.3g} ms by it, "
            "most of which the host may have spent."
        )
        return WallClock(plain_ms, calls, note=note)
    calls = min(calls, fewer)
    queued_ms = _slope_ms(row, calls, 2e-3 * _MARGIN * calls * plain_ms, repeats)
    if _agrees(told_ms, queued_ms, calls):
        return WallClock(queued_ms, calls)
    contradiction = (
        f"{told_ms:.4g} ms a call were told by the candidate's process, but by the referee's clock "
        f"{calls} more calls took {queued_ms * calls:.4g} ms, which is {queued_ms:.4g} ms a call."
    )
    return WallClock(queued_ms, calls, contradiction=contradiction)


def _slope_ms(row: Row, calls: int, behind_s: float, repeats: int) -> float:
    """From the least time of each kind: what disturbs can only add."""
    single = min(row(calls, behind_s) for _ in range(repeats))
    double = min(row(2 * calls, behind_s) for _ in range(repeats))
    return max(double - single, 0.0) / calls * 1e3


def _agrees(told_ms: float, slope_ms: float, calls: int) -> bool:
    jitter_ms = 0.1 / calls  # twice what a request's time strays by
    return slope_ms <= _FACTOR * told_ms + _GRAIN_MS + jitter_ms
