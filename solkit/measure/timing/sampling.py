"""Number and order of the measured times."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Protocol, TypeVar

from solkit.errors import WorkerError
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.clocks import Interval
from solkit.measure.timing.median_interval import median_interval

T = TypeVar("T")

_SHORT_S, _SLOW_S = 0.005, 1.0
_DRAWING_S, _FEWEST = 4.0, 8
"""Seconds for drawing inputs, but no fewer samples: eight still have a 95 % interval."""
_FAR, _LEAST = 4.0, 2
"""So many times beyond its limit, a side needs only so many samples, and one call to warm up: eight
calls of a reference with thousands of launches, and reading what ran, took half a search."""
_SEARCHED = 20
"""Samples in a search: the interval of most medians is within 1 % by then."""
COSTLY_DRAW_S, _COSTLY_WARMUP, _COSTLY_BUDGET_S = 0.005, 2, 1.0
"""Draws that take so long are the larger part of a turn, and come with calls of milliseconds, of
which eight are precise enough for most; the others get more."""
_REQUESTING_S = 0.001  # more than a request, a flush of L2 and a launch add to a call's time


@dataclass(frozen=True)
class Subject:
    """A subject timed in this process."""

    name: str  # the key under which the flush remembers its host time
    # prepares inputs, untimed, and returns the call to time
    prepare: Callable[[], Callable[[], Any]]
    # prepares and returns what fills L2 before a timed call, where the protocol wants it warm;
    # ``None``: the call itself, once more
    warming: Callable[[], Callable[[], Any]] | None = None


class Timer(Protocol):
    """A way of timing calls in this process."""

    @property
    def method(self) -> str:
        """See `solkit.core.Protocol.method`."""

    @property
    def kernels_ms(self) -> Mapping[str, float]:
        """Total time by kernel name in the last round's calls; empty if unknown."""

    def start(self) -> None:
        """Begin a round of calls."""

    def time(self, subject: Subject) -> None:
        """Call it once, and wait until the GPU is done."""

    def stop(self) -> list[CallTime]:
        """Return the times of the round's calls, in their order.

        Raises:
            ActivityError: this way of timing does not work here.
        """


class TurnInputs(Protocol):
    """Gives the inputs of each turn."""

    def draw_ahead(self, turns: int) -> object:
        """Prepare that many turns, before timers begin a round and record what this launches."""

    def begin_turn(self) -> Any:
        """Begin a turn; what this returns is kept beside the turn's times."""


class _SameInputs:
    """Inputs that stay as they are."""

    def draw_ahead(self, turns: int) -> None:
        pass

    def begin_turn(self) -> None:
        pass


@dataclass(frozen=True)
class Side:
    """One of the sides that are timed in turns, in any process."""

    start: Callable[[], object]  # begins a round of calls
    call: Callable[[], object]  # makes one call and waits until it is done
    # gives the times of the round's calls, in their order; raises `ActivityError` if this way of
    # timing does not work here
    stop: Callable[[], list[CallTime]]
    limit_s: float = math.inf  # for its calls: then it sits out, once it has a few samples


class _Turns:
    """One timer for the sides of one process: a round of all is one round of the timer's."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._owners: list[int] = []
        self._times: list[CallTime] | None = None

    def start(self, side: int) -> None:
        if side == 0:
            self._owners, self._times = [], None
            self._timer.start()

    def call(self, side: int, subject: Subject) -> None:
        self._owners.append(side)
        self._timer.time(subject)

    def stop(self, side: int) -> list[CallTime]:
        if self._times is None:
            self._times = self._timer.stop()
        return [t for t, owner in zip(self._times, self._owners, strict=True) if owner == side]


def sides_in_turns(timer: Timer, *subjects: Subject, limit_s: float = math.inf) -> tuple[Side, ...]:
    """Return sides that run in this process under the same timer.

    Args:
        timer: times all of them.
        subjects: what is called.
        limit_s: as in `Side`.
    """
    turns = _Turns(timer)
    return tuple(
        Side(
            partial(turns.start, n),
            partial(turns.call, n, subject),
            partial(turns.stop, n),
            limit_s,
        )
        for n, subject in enumerate(subjects)
    )


def by_first_that_works(
    timers: Sequence[Timer], measure: Callable[[Timer], T]
) -> tuple[T, tuple[str, ...]]:
    """Return the times of the first timer that works, and why those before it do not.

    Raises:
        WorkerError: none works.
    """
    notes: list[str] = []
    for timer in timers:
        try:
            return measure(timer), tuple(notes)
        except ActivityError as error:
            notes.append(f"not timed by {timer.method}: {error}")
    raise WorkerError("no way of timing works here: " + "; ".join(notes))


@dataclass(frozen=True)
class SamplingPlan:
    """Return the number of samples to take."""

    warmup: int = 10  # untimed calls of each side before
    minimum: int = 20  # samples of each side
    maximum: int = 200
    # stop once the 95 % interval of `solkit.measure.timing.median_interval` is within this share of
    # its middle
    precision: float = 0.01
    budget_s: float = 2.0  # beyond the minimum, only as many samples as fit
    # if calls of the first side take longer, only a few samples are taken: they are of no interest
    hopeless_ms: float | None = None


@dataclass
class Series:
    """One side's samples, in the order measured."""

    times: list[CallTime] = field(default_factory=list)  # of the calls
    # when each call ran, on `time.monotonic`'s clock
    ran: list[Interval] = field(default_factory=list)
    # what the call's turn began with, as `TurnInputs` told
    begun: list[Any] = field(default_factory=list)

    @property
    def spans_ms(self) -> list[float]:
        """The times from first start to last end."""
        return [taken.span_ms for taken in self.times]

    @property
    def kernel_sum_ms(self) -> float | None:
        """The median of the sums of kernel times; ``None`` if they are not known."""
        sums = [taken.kernel_sum_ms for taken in self.times if taken.kernel_sum_ms is not None]
        return median(sums) if sums else None


def plan_sampling(reference_s: float) -> SamplingPlan:
    """Return the plan for a problem whose reference takes that long, by the wall clock.

    Sixty short calls go in one round: starting and stopping the profiler takes as long.
    """
    if reference_s > _SLOW_S:
        return SamplingPlan(warmup=1, minimum=3)
    return SamplingPlan(minimum=60, maximum=240) if reference_s < _SHORT_S else SamplingPlan()


def plan_search(plan: SamplingPlan) -> SamplingPlan:
    """Return the plan where a time only chooses what is measured next: more follow if need be."""
    return replace(plan, minimum=min(plan.minimum, _SEARCHED))


def limit_by_draws(plan: SamplingPlan, draw_s: float) -> SamplingPlan:
    """Return the plan with fewer samples, if drawing inputs before each would take too long.

    Where a draw costs much, as few as have an interval come first: more follow while it is wide.
    """
    if draw_s > COSTLY_DRAW_S:
        plan = replace(
            plan,
            warmup=min(plan.warmup, _COSTLY_WARMUP),
            minimum=min(plan.minimum, _FEWEST),
            budget_s=min(plan.budget_s, _COSTLY_BUDGET_S),
        )
    most = int(_DRAWING_S / max(draw_s, 1e-9))
    if most >= plan.warmup + plan.minimum:
        return plan
    return replace(plan, warmup=1, minimum=min(plan.minimum, max(_FEWEST, most)))


def _first_uncertainty(taken: Sequence[Series]) -> float:
    """Return the first side's relative uncertainty of the median."""
    return median_interval(taken[0].spans_ms).relative_error


def sample_sides(
    sides: Sequence[Side],
    plan: SamplingPlan,
    order: random.Random,
    uncertainty: Callable[[Sequence[Series]], float] = _first_uncertainty,
    clock: Callable[[], float] = time.monotonic,
    inputs: TurnInputs = _SameInputs(),  # noqa: B008 - it has no state
) -> tuple[Series, ...]:
    """Time all sides in turns, each once per turn in random order, until precise enough.

    Precision is checked only after the minimum and each doubling: stopping at the first lucky check
    of many would make the interval too narrow. If the warm-up makes the first side look hopeless by
    the clock, a few samples are taken, and the rest only if their median is not: a slow warm-up
    proves nothing.

    Raises:
        ActivityError: from any side.
    """
    taken = tuple(Series() for _ in sides)
    untimed, count, hopeless_ms = plan.warmup, plan.minimum, plan.hopeless_ms
    while count > 0:
        _sample_round(sides, taken, (untimed, count), order, clock, inputs, hopeless_ms)
        untimed, have = 0, len(taken[0].times)
        if hopeless_ms is not None and have < plan.minimum:
            if median(taken[0].spans_ms) > hopeless_ms:
                break
            hopeless_ms, count = None, plan.minimum - have
            continue
        if uncertainty(taken) <= plan.precision:
            break
        spent_s = clock() - min(series.ran[0].start_s for series in taken)
        affordable = int((plan.budget_s / max(spent_s, 1e-9) - 1) * have)
        count = min(have, plan.maximum - have, affordable)
    return taken


def _sample_round(
    sides: Sequence[Side],
    taken: Sequence[Series],
    turns: tuple[int, int],
    order: random.Random,
    clock: Callable[[], float],
    inputs: TurnInputs,
    hopeless_ms: float | None,
) -> None:
    """Time some turns, fewer if the first side looks hopeless; the warm-up is left out."""
    untimed, count = turns
    ran: list[list[Interval]] = [[] for _ in sides]
    begun: list[list[Any]] = [[] for _ in sides]
    warmed = [0 for _ in sides]  # calls that are left out
    inputs.draw_ahead(untimed + count)
    for side in sides:
        side.start()
    for turn in itertools.count():
        if turn == untimed and hopeless_ms is not None and _surely_longer(ran[0], hopeless_ms):
            count = min(count, _FEWEST)
        if turn == untimed + count:
            break
        turn_inputs = inputs.begin_turn()
        for which in order.sample(range(len(sides)), k=len(sides)):
            is_warming = turn < untimed
            timed = len(taken[which].times) + len(ran[which]) - warmed[which]
            took_s = _total_s((*taken[which].ran, *ran[which]))
            if _sits_out(warmed[which] if is_warming else timed, is_warming, took_s, sides[which]):
                continue
            start = clock()
            sides[which].call()
            ran[which].append(Interval(start, clock()))
            begun[which].append(turn_inputs)
            warmed[which] += is_warming
    for which, (side, series) in enumerate(zip(sides, taken, strict=True)):
        times = side.stop()
        if len(times) != len(ran[which]):
            raise ActivityError(f"{len(times)} times for {len(ran[which])} calls")
        series.times += times[warmed[which] :]
        series.ran += ran[which][warmed[which] :]
        series.begun += begun[which][warmed[which] :]


def _sits_out(calls: int, is_warming: bool, took_s: float, side: Side) -> bool:
    """Tell whether a side has enough calls of a kind, for the time that all of them took."""
    if took_s > _FAR * side.limit_s:
        return calls >= (1 if is_warming else _LEAST)
    return not is_warming and calls >= _FEWEST and took_s > side.limit_s


def _total_s(calls: Sequence[Interval]) -> float:
    return sum(call.end_s - call.start_s for call in calls)


def _surely_longer(calls: Sequence[Interval], limit_ms: float) -> bool:
    """Tell whether even the shortest call surely took longer; ``False`` if there is none."""
    took_s = [call.end_s - call.start_s for call in calls]
    return bool(took_s) and min(took_s) - _REQUESTING_S > limit_ms / 1e3
