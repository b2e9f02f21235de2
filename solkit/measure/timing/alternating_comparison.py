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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from solkit.measure.checking.faults import CandidateError
from solkit.measure.guarded.correctness import Setup
from solkit.measure.guarded.examination import Examination, protocol_used
from solkit.measure.guarded.fresh_inputs import Redraws, Shared
from solkit.measure.guarded.messages import ComparisonRequest, JudgedTurns, Request, Turns
from solkit.measure.guarded.remote import CandidateDiedError, Remote
from solkit.measure.timing.clocks import Interval, screen_calls
from solkit.measure.timing.comparison_statistics import half_width
from solkit.measure.timing.protocols import find_protocol
from solkit.measure.timing.sampling import (
    SamplingPlan,
    Series,
    Side,
    Timer,
    by_first_that_works,
    limit_by_draws,
    sample_sides,
)
from solkit.processes.channel import Channel

T = TypeVar("T")

_LONG_S, _SLOW_S = 0.005, 1.0
_MOST_TURNS = 1000
_LOOKS = 0.03
"""The share of timed calls whose outputs are checked: the earlier checks were stricter."""


def compare_in_turns(
    request: ComparisonRequest, channels: Sequence[Channel], setup: Setup
) -> JudgedTurns:
    """Check the candidates of a request and time them in turns, through the channels to each.

    Raises:
        InputError: a kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
        CandidateDiedError: the process of a candidate ended.
    """
    try:
        return _Comparison(request, channels, setup).compare_candidates()
    except _RivalError as failure:
        failed = failure.place, failure.failed_on
        return JudgedTurns((), failure.errors, None, failure.verdict, *failed)


def plan_turns(request: ComparisonRequest, reference_s: float) -> SamplingPlan:
    """Return the number of turns for a problem by its reference's wall-clock time.

    Sixty short calls take about 0.2 s, as long as a few starts and stops of the profiler, which
    more frequent checks would need. Eight are few but give an interval: the chance that six or more
    turns all go one way is 3 % or less; for five it is 6 %.
    """
    if reference_s > _SLOW_S:
        warmup, minimum = 1, 8
    else:
        warmup, minimum = 10, 20 if reference_s > _LONG_S else 60
    return SamplingPlan(warmup, minimum, _MOST_TURNS, request.precision, request.budget_s)


class _RivalError(CandidateError):
    """The failure of one candidate, which its errors name."""

    def __init__(self, rival: _Rival, failure: CandidateError) -> None:
        first, *others = failure.errors
        self.place = rival.place
        named = f"{rival.name}: {first}", *others
        super().__init__(failure.verdict, named, failure.failed_on)


@dataclass(frozen=True)
class _Rival:
    """A candidate, its number, and its name in messages."""

    place: int
    name: str
    examination: Examination

    @contextlib.contextmanager
    def naming_rival(self) -> Iterator[None]:
        """Name the candidate in its failures and in its last step before its process ended."""
        try:
            yield
        except CandidateError as failure:
            raise _RivalError(self, failure) from failure
        except CandidateDiedError as death:
            raise CandidateDiedError(f"{self.name}: {death.doing}", self.place) from death

    def make_side(self, redraws: Redraws, method: str) -> Side:
        """Return the candidate as a side that is sampled, which names it in its failures."""
        own = self.examination.make_side(redraws, method, _LOOKS)

        def named(step: Callable[[], T]) -> T:
            with self.naming_rival():
                return step()

        return Side(partial(named, own.start), partial(named, own.call), partial(named, own.stop))


class _Comparison:
    """The course of one comparison."""

    def __init__(
        self, request: ComparisonRequest, channels: Sequence[Channel], setup: Setup
    ) -> None:
        self._request, self._setup = request, setup
        self._common = request.candidates[0]
        limit_s, count = self._common.time_limit_s, len(channels)

        def examination(candidate: Request, channel: Channel) -> Examination:
            own = replace(candidate, time_limit_s=limit_s / count)  # of which checks take a share
            remote = Remote(channel, limit_s, setup.say, self._common.spent_s)
            return Examination(own, remote, setup)

        pairs = zip(request.candidates, channels, strict=True)
        self._rivals = [
            _Rival(place, _rival_name(place, count), examination(*pair))
            for place, pair in enumerate(pairs)
        ]

    def compare_candidates(self) -> JudgedTurns:
        """Return the comparison's result; raises `_RivalError` if a candidate fails."""
        sets = self._check_rivals()
        base = self._rivals[0].examination.checks
        redraws = base.make_redraws(sets, [rival.examination.remote for rival in self._rivals])
        del sets  # large ones leave memory in the turns
        plan = limit_by_draws(plan_turns(self._request, base.reference_s), redraws.cost_s)
        self._setup.say("timing")
        timers, flush = self._setup.machine.timers(find_protocol(self._common.protocol))
        order = random.Random(self._common.seed)

        def repeated(timer: Timer) -> tuple[str, list[Turns]]:
            repeats = range(self._request.repeats)
            return timer.method, [
                self._time_turns(redraws, timer.method, plan, order) for _ in repeats
            ]

        (method, compared), notes = by_first_that_works(timers, repeated)
        for rival in self._rivals:
            with rival.naming_rival():
                rival.examination.checks.judge_kept_calls()
                rival.examination.check_graphs(_candidate_times(compared, rival.place), redraws)
        unconfirmed = tuple(self._verify_times(compared, redraws.restore_first()))
        samples = sum(len(turns.orders) for turns in compared)
        settings = method, flush, plan.warmup, samples, redraws.kind
        protocol = protocol_used(self._common, *settings)
        judgements = (
            replace(
                judgement, notes=notes + judgement.notes, unstable=judgement.unstable + unconfirmed
            )
            for judgement in compared
        )
        tuned = []
        for rival in self._rivals:
            with rival.naming_rival():
                tuned.append(rival.examination.remote.tuned())
        return JudgedTurns(tuple(judgements), protocol=protocol, tuned=tuple(tuned))

    def _check_rivals(self) -> list[Shared]:
        """Check all candidates; returns the inputs that they share."""
        common: list[Shared] = []
        for rival in self._rivals:
            with rival.naming_rival():
                sets = rival.examination.checks.check_candidate()
                common = common or sets
                if sets is not common:
                    rival.examination.checks.exchange_inputs(sets, common)
        return common

    def _time_turns(
        self, redraws: Redraws, method: str, plan: SamplingPlan, order: random.Random
    ) -> Turns:
        sides = [rival.make_side(redraws, method) for rival in self._rivals]
        with self._setup.machine.conditions() as conditions:
            taken = sample_sides(sides, plan, order, _worst_ratio, inputs=redraws)
        intervals = list(_turn_intervals(taken))
        screening = screen_calls(intervals, conditions.samples)
        names = ", ".join(screening.reasons)
        left_out = f"{screening.left_out} throttled turns left out ({names})."
        kept = [number for number, counts in enumerate(screening.kept) if counts]
        return Turns(
            times_ms=tuple(tuple(s.times[turn].span_ms for turn in kept) for s in taken),
            orders=tuple(_turn_order(taken, turn) for turn in kept),
            conditions=conditions.conditions_since(),
            unstable=screening.evidence,
            notes=(left_out,) if screening.left_out else (),
        )

    def _verify_times(self, compared: Sequence[Turns], shared: Shared) -> Iterator[str]:
        """Check the reported times against the referee's own clock."""
        for rival in self._rivals:
            with rival.naming_rival():
                examined = rival.examination.check_times(
                    _candidate_times(compared, rival.place), shared
                )
            if examined.note is not None:
                yield f"{rival.name}: {examined.note}"


def _candidate_times(compared: Sequence[Turns], place: int) -> list[float]:
    """Return all times of a candidate."""
    return [taken for turns in compared for taken in turns.times_ms[place]]


def _rival_name(place: int, count: int) -> str:
    if place == 0:
        return "base"
    return "candidate" if count == 2 else f"candidate {place}"


def _worst_ratio(taken: Sequence[Series]) -> float:
    """Return the largest relative uncertainty of the ratios to the base."""
    base, *others = taken
    return max(half_width(base.spans_ms, other.spans_ms) for other in others)


def _turn_intervals(taken: Sequence[Series]) -> Iterator[Interval]:
    """List the interval of each turn, from the start of its first call to the end of its last."""
    for calls in zip(*(series.ran for series in taken), strict=True):
        yield Interval(min(c.start_s for c in calls), max(c.end_s for c in calls))


def _turn_order(taken: Sequence[Series], turn: int) -> tuple[int, ...]:
    return tuple(sorted(range(len(taken)), key=lambda number: taken[number].ran[turn].start_s))
