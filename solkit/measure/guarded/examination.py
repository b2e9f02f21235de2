"""The course of one measurement, as the referee sees it: check, time, doubt, decide."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from solkit.core import Conditions, KernelAnalysis, Measurement, Protocol, Verdict
from solkit.errors import WorkerError
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.faults import CandidateError
from solkit.measure.checking.inputs import digest_of, fresh
from solkit.measure.checking.trial_cache import TrialCache
from solkit.measure.guarded.checks import Checks, Say, Shared
from solkit.measure.guarded.messages import Judgement, Request, Samples
from solkit.measure.guarded.remote import Remote
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.conditions import screen
from solkit.measure.timing.machine import Machine
from solkit.measure.timing.median_interval import median_interval
from solkit.measure.timing.protocols import find
from solkit.measure.timing.sampling import Local, Plan, Series, Side, Subject, plan_for, sample
from solkit.measure.timing.wallclock import WallClock
from solkit.measure.timing.wallclock import check as check_by_wall_clock
from solkit.processes.channel import Channel

__all__ = ["Examination", "examine"]

_LOOKS = 6  # how many calls of the first round have their outputs judged, about
_DEGENERATE = (
    "The reference gives the same outputs, bit for bit, on two sets of inputs that differ: a "
    "kernel that does none of its work would be right."
)


@dataclass(frozen=True)
class Timed:
    """What timing gave.

    Attributes:
        candidate, reference: the calls that count.
        method, flush: as in `solkit.core.Protocol`.
        notes: why a better method was not used, and other things to know.
        conditions: clocks and the like meanwhile.
        unstable: why the times are not to be relied upon; empty where they are.
    """

    candidate: Series
    reference: Series
    method: str
    flush: str
    notes: tuple[str, ...]
    conditions: Conditions
    unstable: tuple[str, ...] = ()

    @property
    def samples(self) -> Samples:
        """As they are told."""
        times = tuple(self.candidate.spans_ms), tuple(self.reference.spans_ms)
        return Samples(*times, self.conditions)


def examine(
    request: Request,
    machine: Machine,
    channel: Channel,
    say: Say,
    blocks: contextlib.ExitStack,
    cache: TrialCache | None = None,
) -> Judgement:
    """Check and time the candidate of a request.

    Args:
        request: what to measure.
        machine: what the reference runs on.
        channel: to the candidate's process.
        say: told what is being done, so that it is known should a process die of it.
        blocks: given the shared memory to close, once the candidate's process has let go of it.
        cache: of what candidates before had in common with this one.

    Raises:
        InputError: the kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
        CandidateDiedError: the candidate's process ended.
    """
    deadline = time.monotonic() + request.time_limit_s
    remote = Remote(channel, deadline, request.time_limit_s, say)
    try:
        return Examination(request, machine, remote, say, blocks, cache).outcome()
    except CandidateError as failure:
        return Judgement(failure.verdict, failure.errors, None, None)


class Examination:
    """The course of one examination; raises `CandidateError` where the candidate fails.

    Args:
        request, machine, remote, say, blocks, cache: as for `Checks`.

    Attributes:
        checks: whether the candidate is right.
    """

    def __init__(
        self,
        request: Request,
        machine: Machine,
        remote: Remote,
        say: Say,
        blocks: contextlib.ExitStack,
        cache: TrialCache | None = None,
    ) -> None:
        self._request, self._machine, self._remote, self._say = request, machine, remote, say
        self._protocol = find(request.protocol)
        self.checks = Checks(request, machine, remote, say, blocks, cache or TrialCache())

    def outcome(self) -> Judgement:
        """What becomes of the candidate."""
        sets = self.checks.checked()
        timed_on = sets[-1]
        launches = self._remote.launches(timed_on.trial.name, timed_on.trial.seed)
        timed_on.restore()
        plan = plan_for(self.checks.reference_s)
        timed = self._time(sets, plan)
        clock = self.check_times(timed.candidate.spans_ms, timed_on)
        verdict = Verdict.UNSTABLE if timed.unstable else Verdict.CORRECT
        verdict = Verdict.DEGENERATE_PROBLEM if self.checks.is_degenerate else verdict
        notes = ((_DEGENERATE,) if self.checks.is_degenerate else ()) + timed.unstable + timed.notes
        measurement = _measurement(timed, self.checks.max_error, launches)
        protocol = self._record(timed, plan)
        if clock.note is not None:
            measurement, protocol = _by_wall_clock(measurement, protocol, clock)
            notes += (clock.note,)
        evidence = (*notes, *self.checks.notes)
        held = digest_of(*(each.trial.workload for each in sets))
        samples = replace(timed.samples, inputs_digest=held)
        return Judgement(verdict, evidence, protocol, measurement, samples)

    def _record(self, timed: Timed, plan: Plan) -> Protocol:
        return Protocol(
            method=timed.method,
            l2=self._protocol.l2,
            flush=timed.flush,
            warmup_calls=self.checks.calls + plan.warmup,
            samples=len(timed.candidate.times),
            time_limit_s=self._request.time_limit_s,
            seed=self._request.seed,
            name=self._protocol.name,
            launched=self._protocol.launched,
        )

    def _time(self, sets: Sequence[Shared], plan: Plan) -> Timed:
        self._say("timing")
        notes: list[str] = []
        timers, flush = self._machine.timers(self._protocol)
        for timer in timers:
            order = random.Random(self._request.seed)
            looks = _LOOKS / (plan.warmup + plan.minimum)
            candidate = self.side(sets, timer.method, looks, order.random())
            reference = Local(timer, self._reference_subject(sets[-1]))
            try:
                with self._machine.conditions() as conditions:
                    taken = sample((candidate, reference), plan, order)
            except ActivityError as error:
                notes.append(f"not timed by {timer.method}: {error}")
                continue
            screening = screen(taken[0].ran, conditions.samples)
            first, second = (_kept(series, screening.kept) for series in taken)
            if screening.left_out:
                names = ", ".join(screening.reasons)
                notes.append(f"{screening.left_out} throttled calls left out ({names}).")
            seen, told = conditions.since(), tuple(notes)
            return Timed(first, second, timer.method, flush, told, seen, screening.evidence)
        raise WorkerError("no way of timing works here: " + "; ".join(notes))

    def _reference_subject(self, shared: Shared) -> Subject:
        def prepare() -> Callable[[], Any]:
            trial = shared.trial
            seed_everything(trial.seed)
            own = fresh(trial.workload) if shared.is_written else trial.workload
            return own.run_reference

        if self._protocol.launched == "eager":
            return Subject("reference", prepare)
        call = prepare()
        replay = self._machine.captured(lambda: [call() for _ in range(self._protocol.calls)])
        return Subject("reference", lambda: replay)

    def side(self, sets: Sequence[Shared], method: str, looks: float, seed: float) -> Side:
        """The candidate as what is sampled.

        Args:
            sets: the inputs, of which each call gets one.
            method: of the timer.
            looks: of how many calls the outputs are judged, as a share.
            seed: which inputs a call gets, and whose outputs are judged, is drawn by it.
        """
        return _CandidateSide(self, sets, method, looks, random.Random(seed))

    def timed_call(self, shared: Shared, looks: bool) -> None:
        """One timed call of the candidate; its outputs are judged where that is wished."""
        calls = self._protocol.calls if self._protocol.launched == "graph" else 0
        self._remote.call(shared.trial.name, shared.trial.seed, calls)
        if looks and not (shared.is_written and calls > 1):  # a graph's calls write on each other
            self.checks.judge_last(shared, "a timed call")
        if shared.is_written:
            shared.restore()

    def check_times(self, told_ms: Sequence[float], shared: Shared) -> WallClock:
        """Hold what the candidate's process told of timed calls against the referee's own clock."""
        self.checks.check_kernels()
        told = median_interval(told_ms)
        found = check_by_wall_clock(
            told.high, _Rows(self.checks, self._remote, shared, self._machine)
        )
        if found.contradiction is not None:
            raise CandidateError(Verdict.CHEATING, (found.contradiction,))
        self.checks.heed(self._remote.look(guarded=True).findings)
        return found

    def begin(self, method: str) -> None:
        """Begin a round of the candidate's calls."""
        self._remote.start(self._protocol.name, method)

    def end(self) -> list[CallTime]:
        """End it; the times that were told."""
        return self._remote.stop()


class _CandidateSide:
    """See `Examination.side`."""

    def __init__(
        self,
        examination: Examination,
        sets: Sequence[Shared],
        method: str,
        looks: float,
        order: random.Random,
    ) -> None:
        self._examination, self._sets, self._method = examination, sets, method
        self._looks, self._order = looks, order

    def start(self) -> None:
        """See `solkit.measure.timing.sampling.Side`."""
        self._examination.begin(self._method)

    def call(self) -> None:
        """See `solkit.measure.timing.sampling.Side`."""
        looks = self._order.random() < self._looks
        self._examination.timed_call(self._order.choice(self._sets), looks)

    def stop(self) -> list[CallTime]:
        """See `solkit.measure.timing.sampling.Side`."""
        return self._examination.end()


@dataclass(frozen=True)
class _Rows:
    """See `solkit.measure.timing.wallclock.Calls`."""

    checks: Checks
    remote: Remote
    shared: Shared
    machine: Machine

    def row(self, calls: int, behind_s: float) -> float:
        """Rows begin with the same inputs, undisturbed by what the referee does."""
        if self.shared.is_written:
            self.shared.restore()
        self.machine.synchronize()
        return self._repeat(calls, behind_s, wait=True)

    def launch(self, calls: int, behind_s: float) -> float:
        """Nothing is left for the next request to wait for."""
        taken_s = self._repeat(calls, behind_s, wait=False)
        self.remote.settle()
        return taken_s

    def judge(self) -> None:
        """Calls that change their inputs have written on each other: there is nothing to judge."""
        if not self.shared.is_written:
            self.checks.judge_last(self.shared, "the last of a row of calls")

    def _repeat(self, calls: int, behind_s: float, wait: bool) -> float:
        trial = self.shared.trial
        return self.remote.repeat(trial.name, trial.seed, calls, behind_s, wait)


def _kept(series: Series, kept: Sequence[bool]) -> Series:
    return Series(
        [taken for taken, counts in zip(series.times, kept, strict=True) if counts],
        [ran for ran, counts in zip(series.ran, kept, strict=True) if counts],
    )


def _measurement(
    timed: Timed, max_error: float, launches: tuple[KernelAnalysis, ...]
) -> Measurement:
    candidate = timed.candidate
    interval = median_interval(candidate.spans_ms)
    sums = [t.kernel_sum_ms for t in candidate.times if t.kernel_sum_ms is not None]
    return Measurement(
        median_ms=interval.median,
        low_ms=interval.low,
        high_ms=interval.high,
        kernel_sum_ms=median_interval(sums).median if sums else None,
        reference_ms=median_interval(timed.reference.spans_ms).median,
        method=timed.method,
        max_error=max_error,
        samples=len(candidate.times),
        sm_clock_mhz=timed.conditions.sm_clock_mhz,
        launches=launches,
    )


def _by_wall_clock(
    measurement: Measurement, protocol: Protocol, clock: WallClock
) -> tuple[Measurement, Protocol]:
    """The same with the slope for the candidate's time."""
    method, slope_ms = "wall clock", clock.slope_ms
    measurement = replace(measurement, median_ms=slope_ms, low_ms=slope_ms, high_ms=slope_ms)
    return replace(measurement, method=method), replace(protocol, method=method)
