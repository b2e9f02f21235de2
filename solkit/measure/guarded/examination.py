"""One measurement, as the referee runs it: check, time, verify the times, decide."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

from solkit.core import Conditions, KernelAnalysis, Measurement, Protocol, Verdict
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.faults import CandidateError
from solkit.measure.checking.inputs import digest_of, fresh
from solkit.measure.guarded.checks import Checks, Setup, Shared
from solkit.measure.guarded.messages import Judgement, Request, Samples
from solkit.measure.guarded.remote import Remote
from solkit.measure.timing.conditions import screen
from solkit.measure.timing.median_interval import median_interval
from solkit.measure.timing.protocols import find
from solkit.measure.timing.sampling import (
    Plan,
    Series,
    Side,
    Subject,
    Timer,
    by_first_that_works,
    in_turns,
    plan_for,
    sample,
)
from solkit.measure.timing.wallclock import WallClock
from solkit.measure.timing.wallclock import check as check_by_wall_clock
from solkit.processes.channel import Channel

__all__ = ["Examination", "examine", "protocol_used"]

_LOOKS = 6  # about how many calls of the first round have their outputs judged
_DEGENERATE = (
    "The reference gives the same outputs, bit for bit, on two sets of inputs that differ: a "
    "kernel that does none of its work would be correct."
)


@dataclass(frozen=True)
class _Timed:
    """The result of timing."""

    candidate: Series  # the calls that count
    reference: Series
    method: str  # as in `solkit.core.Protocol`
    conditions: Conditions  # clocks, power and temperature meanwhile
    unstable: tuple[str, ...]  # why the times are unreliable; empty if they are reliable
    notes: tuple[str, ...]  # other remarks, such as throttled calls


def examine(request: Request, channels: Sequence[Channel], setup: Setup) -> Judgement:
    """Check and time the candidate of a request, through the one channel to its process.

    Raises:
        InputError: the kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
        CandidateDiedError: the candidate's process ended.
    """
    (channel,) = channels
    remote = Remote(channel, request.time_limit_s, setup.say)
    try:
        return Examination(request, remote, setup).outcome()
    except CandidateError as failure:
        return Judgement(failure.verdict, failure.errors, None, None)


def protocol_used(
    request: Request, method: str, flush: str, warmup_calls: int, samples: int
) -> Protocol:
    """The record of how a request was timed."""
    named = find(request.protocol)
    return Protocol(
        method=method,
        l2=named.l2,
        flush=flush,
        warmup_calls=warmup_calls,
        samples=samples,
        time_limit_s=request.time_limit_s,
        seed=request.seed,
        name=named.name,
        launched=named.launched,
    )


class Examination:
    """The examination of one candidate, in its process; raises `CandidateError` if it fails."""

    def __init__(self, request: Request, remote: Remote, setup: Setup) -> None:
        self._request, self._remote, self._setup = request, remote, setup
        self._protocol = find(request.protocol)
        self.checks = Checks(request, remote, setup)

    def outcome(self) -> Judgement:
        """The judgement of the candidate."""
        sets = self.checks.checked()
        timed_on = sets[-1]
        launches = self._remote.launches(timed_on.trial.name, timed_on.trial.seed)
        timed_on.restore()
        plan = plan_for(self.checks.reference_s)
        timed, flush = self._time(sets, plan)
        clock = self.check_times(timed.candidate.spans_ms, timed_on)
        verdict = Verdict.UNSTABLE if timed.unstable else Verdict.CORRECT
        verdict = Verdict.DEGENERATE_PROBLEM if self.checks.is_degenerate else verdict
        notes = ((_DEGENERATE,) if self.checks.is_degenerate else ()) + timed.unstable + timed.notes
        measurement = _measurement(timed, self.checks.max_error, launches)
        warmup_calls = self.checks.calls + plan.warmup
        counted = len(timed.candidate.times)
        protocol = protocol_used(self._request, timed.method, flush, warmup_calls, counted)
        if clock.note is not None:
            measurement, protocol = _by_wall_clock(measurement, protocol, clock)
            notes += (clock.note,)
        samples = Samples(
            tuple(timed.candidate.spans_ms),
            tuple(timed.reference.spans_ms),
            timed.conditions,
            inputs_digest=digest_of(*(each.trial.workload for each in sets)),
        )
        needed = None
        if verdict is Verdict.CORRECT and measurement.median_ms < self._request.hard_ms:
            needed = self.checks.needed(sets)
        notes = (*notes, *self.checks.notes)
        return Judgement(verdict, notes, protocol, measurement, samples, needed)

    def _time(self, sets: Sequence[Shared], plan: Plan) -> tuple[_Timed, str]:
        """The times by the first timer that works, and how it flushes L2."""
        self._setup.say("timing")
        timers, flush = self._setup.machine.timers(self._protocol)
        timed, notes = by_first_that_works(timers, partial(self._time_by, sets, plan))
        return replace(timed, notes=notes + timed.notes), flush

    def _time_by(self, sets: Sequence[Shared], plan: Plan, timer: Timer) -> _Timed:
        order = random.Random(self._request.seed)
        looks = _LOOKS / (plan.warmup + plan.minimum)
        candidate = self.side(sets, timer.method, looks, order.random())
        sides = (candidate, *in_turns(timer, self._reference_subject(sets[-1])))
        with self._setup.machine.conditions() as conditions:
            taken = sample(sides, plan, order)
        screening = screen(taken[0].ran, conditions.samples)
        first, second = (_kept(series, screening.kept) for series in taken)
        names = ", ".join(screening.reasons)
        left_out = f"{screening.left_out} throttled calls left out ({names})."
        notes = (left_out,) if screening.left_out else ()
        seen = conditions.since()
        return _Timed(first, second, timer.method, seen, screening.evidence, notes)

    def _reference_subject(self, shared: Shared) -> Subject:
        def prepare() -> Callable[[], Any]:
            trial = shared.trial
            seed_everything(trial.seed)
            own = fresh(trial.workload) if shared.written else trial.workload
            return own.run_reference

        if self._protocol.launched == "eager":
            return Subject("reference", prepare)
        call = prepare()
        calls = range(self._protocol.calls)
        replay = self._setup.machine.captured(lambda: [call() for _ in calls])
        return Subject("reference", lambda: replay)

    def side(self, sets: Sequence[Shared], method: str, looks: float, seed: float) -> Side:
        """The candidate as a side that is sampled.

        The seed decides which of the input sets a call gets, and whether its outputs are judged, as
        they are for the share `looks` of the calls.
        """
        order = random.Random(seed)

        def call() -> None:
            is_judged = order.random() < looks
            self._timed_call(order.choice(sets), is_judged)

        start = partial(self._remote.start, self._protocol.name, method)
        return Side(start, call, self._remote.stop)

    def _timed_call(self, shared: Shared, is_judged: bool) -> None:
        calls = self._protocol.calls if self._protocol.launched == "graph" else 0
        self._remote.call(shared.trial.name, shared.trial.seed, calls)
        if is_judged and not (shared.written and calls > 1):  # a graph's calls overwrite each other
            self.checks.judge_last(shared, "a timed call")
        if shared.written:
            shared.restore()

    def check_times(self, told_ms: Sequence[float], shared: Shared) -> WallClock:
        """Check the times that the candidate's process reported against the referee's clock."""
        self.checks.check_kernels()
        rows = _Rows(self.checks, self._remote, shared, self._setup)
        found = check_by_wall_clock(median_interval(told_ms).high, rows)
        if found.contradiction is not None:
            raise CandidateError(Verdict.CHEATING, (found.contradiction,))
        self.checks.heed(self._remote.look(guarded=True).findings)
        return found


@dataclass(frozen=True)
class _Rows:
    """Rows of calls: see `solkit.measure.timing.wallclock.Calls`."""

    checks: Checks
    remote: Remote
    shared: Shared
    setup: Setup

    def row(self, calls: int, behind_s: float) -> float:
        """Each row begins with the same inputs, after the referee's own work is done."""
        if self.shared.written:
            self.shared.restore()
        self.setup.machine.synchronize()
        return self._repeat(calls, behind_s, wait=True)

    def launch(self, calls: int, behind_s: float) -> float:
        """The launched work is done before the next request."""
        taken_s = self._repeat(calls, behind_s, wait=False)
        self.remote.settle()
        return taken_s

    def judge(self) -> None:
        """Calls that change their inputs overwrite each other's, so they are not judged."""
        if not self.shared.written:
            self.checks.judge_last(self.shared, "the last of a row of calls")

    def _repeat(self, calls: int, behind_s: float, wait: bool) -> float:
        trial = self.shared.trial
        return self.remote.repeat(trial.name, trial.seed, calls, behind_s, wait)


def _kept(series: Series, kept: Sequence[bool]) -> Series:
    return Series(list(compress(series.times, kept)), list(compress(series.ran, kept)))


def _measurement(
    timed: _Timed, max_error: float, launches: tuple[KernelAnalysis, ...]
) -> Measurement:
    interval = median_interval(timed.candidate.spans_ms)
    return Measurement(
        median_ms=interval.median,
        low_ms=interval.low,
        high_ms=interval.high,
        kernel_sum_ms=timed.candidate.kernel_sum_ms,
        reference_ms=median_interval(timed.reference.spans_ms).median,
        method=timed.method,
        max_error=max_error,
        samples=len(timed.candidate.times),
        sm_clock_mhz=timed.conditions.sm_clock_mhz,
        launches=launches,
    )


def _by_wall_clock(
    measurement: Measurement, protocol: Protocol, clock: WallClock
) -> tuple[Measurement, Protocol]:
    """The same with the slope as the candidate's time."""
    method, slope_ms = "wall clock", clock.slope_ms
    measurement = replace(measurement, median_ms=slope_ms, low_ms=slope_ms, high_ms=slope_ms)
    return replace(measurement, method=method), replace(protocol, method=method)
