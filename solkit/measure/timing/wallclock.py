"""Check of the times that a candidate's process reports against the referee's own clock.

CUPTI sees only its own process, so a candidate's times come from the candidate's process. The
referee requests rows of N calls and of 2N, and times both by its own clock, from the request to the
answer, which comes when the GPU is done::

    slope = (t(2N) - t(N)) / N

The cost of a request cancels out. A call cannot take the GPU longer than the slope, so a reported
time above it only means a cold L2. A reported time far *below* it is a lie, unless the host is slow
to launch. Then fewer calls are queued behind work that keeps the GPU busy, so that the slope is the
GPU's time again.

Strength. A reported time under half the slope, less a few µs, is contradicted: a candidate cannot
gain more than a factor of 2 by lying. (Not less than 2: under a 700 W limit an H100's clock falls
by a third in a row of large products.) The µs are 5, and a request's jitter over the N calls, some
100 µs and up to 500 where rows alike differ by as much: 6 for a kernel that launches as fast as it
runs, 10 with a host that takes 50 µs per call, on a quiet machine. So under 10 µs the check means
little: a 2 µs kernel may be reported as 0.5. A candidate that waits for the GPU within a call, or
keeps the host busy for over 100 ms, cannot be queued: its time is the slope. The check does not see
a candidate that is fast in the rows too because it skips the work: therefore the outputs of the
rows that count are checked. Nor does it see one that learns from the frames of SolKit's code which
rows are short, and idles only in these: that flattens the slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

_FACTOR = 2.0
_GRAIN_MS = 0.005
_JITTER_MS = 0.1
_MOST_JITTER_MS = 0.5  # a candidate must gain nothing by disturbing its own rows
_ROW_MS = 2.0
_MOST_CALLS = 100
_SLOW_MS = 10.0
_MOST_QUEUED = 700  # a stream takes about a thousand launches before the host has to wait
_LEAST_LAUNCH_MS = 0.0025  # so a call has at most its slope over this many launches
_MOST_HIDDEN_MS = 400.0
_MARGIN = 1.5  # how much longer the GPU is kept busy than the host needs
_REQUEST_MS = 2.0
_SPARE = 0.1  # the share of it that must remain when the host is done
_TRIES = 5
_LEAST_REPEATS, _PLAIN_REPEATS, _QUEUED_REPEATS = 2, 3, 12

_NOTICED_MS = 20.0  # a wait that long cannot be mistaken for a slow request


class Calls(Protocol):
    """Requests to the candidate's process; times are the referee's."""

    def row(self, calls: int, behind_s: float) -> float:
        """Return seconds for that many calls, queued behind work that takes that many seconds."""

    def launch(self, calls: int, behind_s: float) -> float:
        """Return seconds until that many calls, queued like that, were launched, at the least."""

    def judge(self) -> None:
        """Check the outputs of the last row, whose time counts against the candidate."""


@dataclass(frozen=True)
class WallClock:
    """The referee's check of a reported time."""

    slope_ms: float  # milliseconds per call
    calls: int  # N
    contradiction: str | None = None  # a sentence if the reported time cannot be true
    # a sentence if it cannot be confirmed, so that the slope counts instead
    note: str | None = None


def check_reported_time(told_ms: float, calls: Calls) -> WallClock:
    """Check a reported time, the upper end of the median's interval, against rows of calls."""
    count = max(1, min(_MOST_CALLS, math.ceil(_ROW_MS / told_ms)))
    repeats = _PLAIN_REPEATS if told_ms < _SLOW_MS else 1
    plain = _time_rows(calls, told_ms, count, 0.0, repeats)
    if plain.agrees_with(told_ms):
        return WallClock(plain.slope_ms, count)
    plain_ms = plain.slope_ms
    count = max(1, min(count, int(_MOST_QUEUED * _LEAST_LAUNCH_MS / (2 * plain_ms))))
    queued = _time_queued(calls, told_ms, count, 2 * count * plain_ms)
    if queued is None:
        why = "waits for the GPU" if _waits_for_gpu(calls, plain_ms) else "may keep the host busy"
        note = (
            f"Timed by the referee's clock at {plain_ms:.4g} ms per call: it {why}, so the "
            f"{told_ms:.4g} ms of GPU time can't be confirmed."
        )
        return WallClock(plain_ms, count, note=note)
    if queued.agrees_with(told_ms):
        return WallClock(queued.slope_ms, count)
    contradiction = (
        f"The candidate's process reported {told_ms:.4g} ms per call, but by the referee's clock "
        f"{count} more calls took {queued.slope_ms * count:.4g} ms, which is {queued.slope_ms:.4g} "
        "ms per call."
    )
    return WallClock(queued.slope_ms, count, contradiction=contradiction)


@dataclass(frozen=True)
class _Rows:
    """Times of rows of N and of 2N calls, the least first: disturbances only add time."""

    calls: int
    single_ms: tuple[float, ...]
    double_ms: tuple[float, ...]

    @property
    def slope_ms(self) -> float:
        return max(self.double_ms[0] - self.single_ms[0], 0.0) / self.calls

    @property
    def apart_ms(self) -> float:
        """Distances from the minima to the next times, summed: large where rows are delayed."""
        return sum(times[1] - times[0] for times in (self.single_ms, self.double_ms) if times[1:])

    @property
    def request_ms(self) -> float:
        """Time of the least row of N besides its calls, if nothing was queued before them."""
        return self.single_ms[0] - self.calls * self.slope_ms

    @property
    def jitter_ms(self) -> float:
        """The error of the two minima's difference."""
        return min(max(_JITTER_MS, 2 * self.apart_ms), _MOST_JITTER_MS)

    def agrees_with(self, told_ms: float, jitter_ms: float | None = None) -> bool:
        jitter_ms = self.jitter_ms if jitter_ms is None else jitter_ms
        return self.slope_ms <= _FACTOR * told_ms + _GRAIN_MS + jitter_ms / self.calls


def _waits_for_gpu(calls: Calls, call_ms: float) -> bool:
    """Tell whether a call returns only after the GPU finished the work queued before it."""
    behind_ms = max(_NOTICED_MS, 3 * call_ms)
    if behind_ms > _MOST_HIDDEN_MS:
        return False
    return 1e3 * calls.launch(1, behind_ms / 1e3) > 0.8 * behind_ms


def _time_rows(calls: Calls, told_ms: float, count: int, behind_s: float, repeats: int) -> _Rows:
    """Time rows of both kinds alternately, at least twice, until they agree with the report.

    Rows of N that were all delayed hide a lie. Rows alike that lie apart show delays, and so does a
    request that takes long (delays may be equal: ticks of a scheduler). What agrees then is not
    believed: others are timed.
    """
    most = repeats if told_ms >= _SLOW_MS else _QUEUED_REPEATS
    single_ms: list[float] = []
    double_ms: list[float] = []
    for repeat in range(1, most + 1):
        single_ms.append(1e3 * calls.row(count, behind_s))
        double_ms.append(1e3 * calls.row(2 * count, behind_s))
        if double_ms[-1] == min(double_ms):
            calls.judge()  # doing less work in the rows that count would pay
        rows = _Rows(count, tuple(sorted(single_ms)), tuple(sorted(double_ms)))
        delayed = rows.apart_ms > _MOST_JITTER_MS
        delayed = delayed or (not behind_s and rows.request_ms > _REQUEST_MS)
        if delayed and rows.agrees_with(told_ms):
            continue
        if repeat >= repeats or (
            repeat >= _LEAST_REPEATS and rows.agrees_with(told_ms, _JITTER_MS)
        ):
            break
    return rows


def _time_queued(calls: Calls, told_ms: float, count: int, host_ms: float) -> _Rows | None:
    """Return rows that hide the host, which takes about `host_ms` for 2N calls.

    The host is hidden if all 2N calls are launched clearly before the GPU finishes N; ``None`` if
    that is impossible. Both times include the cost of a request.
    """
    behind_ms = _MARGIN * host_ms + _REQUEST_MS
    repeats = _QUEUED_REPEATS if told_ms < _SLOW_MS else 1
    for _ in range(_TRIES):
        if behind_ms > _MOST_HIDDEN_MS:
            return None
        behind_s = behind_ms / 1e3
        launched_ms = 1e3 * min(calls.launch(2 * count, behind_s) for _ in range(_LEAST_REPEATS))
        if launched_ms < behind_ms:
            rows = _time_rows(calls, told_ms, count, behind_s, repeats)
            if rows.single_ms[0] >= launched_ms + _SPARE * behind_ms:
                return rows
        behind_ms *= 2
    return None
