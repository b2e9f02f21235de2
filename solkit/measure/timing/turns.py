"""A comparison, run by the referee: check the candidates, then time them in turns.

Each candidate has its own process, and none knows when another is called. In every turn each is
called once, in random order, and a call starts only after the previous one ends: one process at a
time uses the GPU. All get the same inputs, in the same memory. For the reasons see
docs/decisions/0006-comparing-across-processes.md. Turns stop when the ratios' intervals are narrow
enough, wherever they lie: stopping when a difference shows would find one sooner or later.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from solkit.core import Protocol, Verdict
from solkit.errors import WorkerError
from solkit.measure.checking.faults import CandidateError
from solkit.measure.checking.trial_cache import TrialCache
from solkit.measure.guarded.checks import Shared
from solkit.measure.guarded.examination import Examination
from solkit.measure.guarded.messages import ComparisonRequest, JudgedTurns, Request, Turns
from solkit.measure.guarded.remote import CandidateDiedError, Remote
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.comparison_statistics import half_width
from solkit.measure.timing.conditions import Interval, screen
from solkit.measure.timing.machine import Machine
from solkit.measure.timing.protocols import find
from solkit.measure.timing.sampling import Plan, Series, Side, sample
from solkit.processes.channel import Channel

__all__ = ["compare", "plan_for"]

_LONG_S, _SLOW_S = 0.005, 1.0
_MOST_TURNS = 1000
_LOOKS = (
    0.03  # the share of timed calls whose outputs are checked: the earlier checks were stricter
)

Say = Callable[[str], None]


def compare(
    request: ComparisonRequest,
    machine: Machine,
    channels: Sequence[Channel],
    say: Say,
    blocks: contextlib.ExitStack,
    cache: TrialCache | None = None,
) -> JudgedTurns:
    """Check the candidates of a request and time them in turns.

    Args:
        request: what to compare.
        machine: what the reference runs on.
        channels: to the candidates' processes, in the candidates' order.
        say: receives the current step, so that it is known if a process dies.
        blocks: receives the shared memory to close once the candidates' processes have released it.
        cache: of trials shared with earlier candidates.

    Raises:
        InputError: a kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
        CandidateDiedError: the process of a candidate ended.
    """
    try:
        return _Comparison(request, machine, channels, say, blocks, cache or TrialCache()).outcome()
    except _RivalError as failure:
        return JudgedTurns((), failure.errors, None, failure.verdict, failure.place)


def plan_for(request: ComparisonRequest, reference_s: float) -> Plan:
    """How many turns, for a problem whose reference takes that long by the wall clock.

    Sixty short calls take about 0.2 s, as long as a few starts and stops of the profiler, which
    more frequent checks would need. Eight are few but give an interval: the chance that six or more
    turns all go one way is 3 % or less; for five it is 6 %.
    """
    if reference_s > _SLOW_S:
        warmup, minimum = 1, 8
    else:
        warmup, minimum = 10, 20 if reference_s > _LONG_S else 60
    return Plan(warmup, minimum, _MOST_TURNS, request.precision, request.budget_s)


class _RivalError(Exception):
    """A candidate that failed."""

    def __init__(self, place: int, verdict: Verdict, errors: tuple[str, ...]) -> None:
        self.place, self.verdict, self.errors = place, verdict, errors
        super().__init__(place, verdict, errors)


@dataclass(frozen=True)
class _Rival:
    """A candidate, its number, and its name in messages."""

    place: int
    name: str
    examination: Examination

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Name the candidate in its failures and in its last step before its process ended."""
        try:
            yield
        except CandidateError as failure:
            first, *others = failure.errors
            told = f"{self.name}: {first}", *others
            raise _RivalError(self.place, failure.verdict, told) from failure
        except CandidateDiedError as death:
            raise CandidateDiedError(f"{self.name}: {death.doing}", self.place) from death


@dataclass(frozen=True)
class _RivalSide:
    """A rival as what is sampled: see `solkit.measure.timing.sampling.Side`."""

    rival: _Rival
    side: Side

    def start(self) -> None:
        with self.rival.named():
            self.side.start()

    def call(self) -> None:
        with self.rival.named():
            self.side.call()

    def stop(self) -> list[CallTime]:
        with self.rival.named():
            return self.side.stop()


class _Comparison:
    """The course of one comparison."""

    def __init__(
        self,
        request: ComparisonRequest,
        machine: Machine,
        channels: Sequence[Channel],
        say: Say,
        blocks: contextlib.ExitStack,
        cache: TrialCache,
    ) -> None:
        self._request, self._machine = request, machine
        self._say = say
        self._common = request.candidates[0]
        limit_s, count = self._common.time_limit_s, len(channels)
        deadline = time.monotonic() + limit_s

        def examination(candidate: Request, channel: Channel) -> Examination:
            own = replace(candidate, time_limit_s=limit_s / count)  # of which checks take a share
            remote = Remote(channel, deadline, limit_s, say)
            return Examination(own, machine, remote, say, blocks, cache)

        self._rivals = [
            _Rival(place, _name(place, count), examination(candidate, channel))
            for place, (candidate, channel) in enumerate(
                zip(request.candidates, channels, strict=True)
            )
        ]

    def outcome(self) -> JudgedTurns:
        """The comparison's result; raises `_RivalError` if a candidate fails."""
        sets = self._checked()
        plan = plan_for(self._request, self._rivals[0].examination.checks.reference_s)
        method, flush, compared = self._compare(sets, plan)
        unconfirmed = tuple(self._doubts(compared, sets[-1]))
        protocol = Protocol(
            method=method,
            l2=find(self._common.protocol).l2,
            flush=flush,
            warmup_calls=plan.warmup,
            samples=sum(len(turns.orders) for turns in compared),
            time_limit_s=self._common.time_limit_s,
            seed=self._common.seed,
            name=self._common.protocol,
            launched=find(self._common.protocol).launched,
        )
        found = (replace(turns, unstable=turns.unstable + unconfirmed) for turns in compared)
        return JudgedTurns(tuple(found), protocol=protocol)

    def _checked(self) -> list[Shared]:
        """Check all candidates; returns the inputs that they share."""
        common: list[Shared] = []
        for rival in self._rivals:
            with rival.named():
                sets = rival.examination.checks.checked()
                common = common or sets
                if sets is not common:
                    rival.examination.checks.exchange(sets, common)
        return common

    # --------------------------------------------------------------------------------- timing

    def _compare(self, sets: Sequence[Shared], plan: Plan) -> tuple[str, str, list[Turns]]:
        """The method, how it flushes, and each repeat's result, by one timer throughout."""
        self._say("timing")
        notes: tuple[str, ...] = ()
        timers, flush = self._machine.timers(find(self._common.protocol))
        order = random.Random(self._common.seed)
        for timer in timers:
            try:
                compared = [
                    self._turns(sets, timer.method, plan, order)
                    for _ in range(self._request.repeats)
                ]
            except ActivityError as error:
                notes += (f"not timed by {timer.method}: {error}",)
                continue
            told = [replace(turns, notes=notes + turns.notes) for turns in compared]
            return timer.method, flush, told
        raise WorkerError("no way of timing works here: " + "; ".join(notes))

    def _turns(
        self, sets: Sequence[Shared], method: str, plan: Plan, order: random.Random
    ) -> Turns:
        seed = order.random()  # one for all, so that all get the same inputs in a turn
        sides = [
            _RivalSide(rival, rival.examination.side(sets, method, _LOOKS, seed))
            for rival in self._rivals
        ]
        with self._machine.conditions() as conditions:
            taken = sample(sides, plan, order, _worst_ratio)
        intervals = list(_intervals(taken))
        screening = screen(intervals, conditions.samples)
        names = ", ".join(screening.reasons)
        left_out = f"{screening.left_out} throttled turns left out ({names})."
        kept = [number for number, counts in enumerate(screening.kept) if counts]
        return Turns(
            times_ms=tuple(tuple(s.times[turn].span_ms for turn in kept) for s in taken),
            orders=tuple(_order(taken, turn) for turn in kept),
            conditions=conditions.since(),
            unstable=screening.evidence,
            notes=(left_out,) if screening.left_out else (),
        )

    def _doubts(self, compared: Sequence[Turns], shared: Shared) -> Iterator[str]:
        """Check the reported times against the referee's own clock."""
        for rival in self._rivals:
            told_ms = [taken for turns in compared for taken in turns.times_ms[rival.place]]
            with rival.named():
                found = rival.examination.check_times(told_ms, shared)
            if found.note is not None:
                yield f"{rival.name}: {found.note}"


def _name(place: int, count: int) -> str:
    if place == 0:
        return "base"
    return "candidate" if count == 2 else f"candidate {place}"


def _worst_ratio(taken: Sequence[Series]) -> float:
    """The largest relative uncertainty of the ratios to the base."""
    base, *others = taken
    return max(half_width(base.spans_ms, other.spans_ms) for other in others)


def _intervals(taken: Sequence[Series]) -> Iterator[Interval]:
    """Each turn's interval, from the start of its first call to the end of its last."""
    for calls in zip(*(series.ran for series in taken), strict=True):
        yield Interval(min(c.start_s for c in calls), max(c.end_s for c in calls))


def _order(taken: Sequence[Series], turn: int) -> tuple[int, ...]:
    return tuple(sorted(range(len(taken)), key=lambda number: taken[number].ran[turn].start_s))
