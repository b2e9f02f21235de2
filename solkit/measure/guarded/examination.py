"""One measurement, as the referee runs it: check, time, verify the times, decide."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from solkit.core import Conditions, KernelAnalysis, Measurement, Protocol, Verdict
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.faults import CandidateError
from solkit.measure.checking.inputs import copy_workload, digest_inputs
from solkit.measure.checking.trials import Trial
from solkit.measure.guarded.correctness import Checks, Setup
from solkit.measure.guarded.fresh_inputs import Redraws, ReferenceGraph, Shared, secret
from solkit.measure.guarded.messages import Judgement, Request, Samples
from solkit.measure.guarded.remote import Remote
from solkit.measure.guarded.sharing import read_through
from solkit.measure.timing.clocks import screen_calls
from solkit.measure.timing.median_interval import median_interval
from solkit.measure.timing.protocols import TimingProtocol, find_protocol
from solkit.measure.timing.sampling import (
    SamplingPlan,
    Series,
    Side,
    Subject,
    Timer,
    by_first_that_works,
    limit_by_draws,
    plan_sampling,
    plan_search,
    sample_sides,
    sides_in_turns,
)
from solkit.measure.timing.wallclock import WallClock
from solkit.measure.timing.wallclock import check_reported_time as check_by_wall_clock
from solkit.processes.channel import Channel

_SINGLE = SamplingPlan(warmup=1, minimum=8, maximum=8)
_SINGLE_FACTOR, _SINGLE_MORE_MS = 2.0, 0.01
"""Allowances for a single call, which finds weights and workspaces less warm."""
_TYPICAL = 2  # inputs of calls at the median, whose needs are measured
_LOOKS, _FEW_LOOKS = 6, 2
"""About how many calls of the first round have their outputs judged: of large inputs fewer, as each
needs the reference in wide arithmetic, which takes longer than all the calls. One is certain, at a
secret place: of two that chance alone chooses among ten calls, there is none one time in nine."""
_REFERENCE_S = 0.05
"""Seconds of the reference's timed calls in a search, which compares candidates alone."""
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
    redraws: Redraws  # the inputs


def examine(request: Request, channels: Sequence[Channel], setup: Setup) -> Judgement:
    """Check and time the candidate of a request, through the one channel to its process.

    Raises:
        InputError: the kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
        CandidateDiedError: the candidate's process ended.
    """
    (channel,) = channels
    remote = Remote(channel, request.time_limit_s, setup.say, request.spent_s)
    try:
        return Examination(request, remote, setup).judge_candidate()
    except CandidateError as failure:
        return Judgement(failure.verdict, failure.errors, None, None, failed_on=failure.failed_on)


def protocol_used(
    request: Request, method: str, flush: str, warmup_calls: int, samples: int, timed_inputs: str
) -> Protocol:
    """Return the record of how a request was timed."""
    named = find_protocol(request.protocol)
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
        timed_inputs=timed_inputs,
    )


class Examination:
    """The examination of one candidate, in its process; raises `CandidateError` if it fails."""

    def __init__(self, request: Request, remote: Remote, setup: Setup) -> None:
        self._request, self.remote, self._setup = request, remote, setup
        self._protocol = find_protocol(request.protocol)
        self.checks = Checks(request, remote, setup)

    def judge_candidate(self) -> Judgement:
        """Return the judgement of the candidate."""
        sets = self.checks.check_candidate()
        timed_on = sets[-1]
        launches = self.remote.launches(timed_on.trial.name, timed_on.trial.seed)
        timed_on.restore()
        digest = digest_inputs(*(shared.trial.workload for shared in sets))
        redraws = self.checks.make_redraws(sets, [self.remote])
        del sets, timed_on  # large ones leave memory in the turns
        plan = plan_sampling(self.checks.reference_s)
        plan = limit_by_draws(
            plan_search(plan) if self._request.searching else plan, redraws.cost_s
        )
        plan = replace(plan, hopeless_ms=self._request.hopeless_ms)
        timed, flush = self._time_candidate(redraws, plan)
        self.check_graphs(timed.candidate.spans_ms, redraws)
        is_short = median(timed.candidate.spans_ms) < self._request.hard_ms
        timed_on = redraws.restore_first(remembering=is_short)
        clock = self.check_times(timed.candidate.spans_ms, timed_on)
        verdict = Verdict.UNSTABLE if timed.unstable else Verdict.CORRECT
        verdict = Verdict.DEGENERATE_PROBLEM if self.checks.is_degenerate else verdict
        notes = ((_DEGENERATE,) if self.checks.is_degenerate else ()) + timed.unstable + timed.notes
        measurement = _measurement(timed, self.checks.max_error, launches)
        warmup_calls = self.checks.calls + plan.warmup
        counted = len(timed.candidate.times)
        details = timed.method, flush, warmup_calls, counted, redraws.kind
        protocol = protocol_used(self._request, *details)
        if clock.note is not None:  # the slope is the candidate's time
            slope_ms, method = clock.slope_ms, "wall clock"
            measurement = replace(
                measurement, median_ms=slope_ms, low_ms=slope_ms, high_ms=slope_ms, method=method
            )
            protocol = replace(protocol, method=method)
            notes += (clock.note,)
        samples = Samples(
            tuple(timed.candidate.spans_ms),
            tuple(timed.reference.spans_ms),
            timed.conditions,
            inputs_digest=digest,
        )
        needed = None
        if verdict is Verdict.CORRECT and measurement.median_ms < self._request.hard_ms:
            alike = [shared.trial for shared in redraws.sets] if redraws.kind == "same" else None
            if clock.note is not None:
                alike = [timed_on.trial]
            needed = self.checks.measure_needs(alike or self._typical_trials(timed))
        notes = (*notes, *self.checks.notes)
        elsewhere = self.checks.is_right_elsewhere
        tuned = self.remote.tuned()
        compiled_s = self.remote.tuning_compiled_s()
        return Judgement(
            *(verdict, notes, protocol, measurement, samples, needed, elsewhere),
            tuned=tuned,
            compiled_s=compiled_s,
        )

    def _typical_trials(self, timed: _Timed) -> list[Trial]:
        """Return the inputs of calls whose times are at the median, or the next below it.

        If calls on these inputs need longer than the median, such a call was impossible. There are
        none if the same seed gives other inputs.
        """
        if not timed.redraws.is_repeatable():
            return []
        series = timed.candidate
        ranked = sorted(range(len(series.times)), key=lambda call: series.times[call].span_ms)
        middle = (len(ranked) - 1) // 2
        chosen = ranked[max(0, middle + 1 - _TYPICAL) : middle + 1]
        return [self.checks.redraw_trial(timed.redraws, series.begun[call]) for call in chosen]

    def _time_candidate(self, redraws: Redraws, plan: SamplingPlan) -> tuple[_Timed, str]:
        """Return the times by the first timer that works, and how it flushes L2."""
        self._setup.say("timing")
        self._setup.machine.make_room()
        timers, flush = self._setup.machine.timers(self._protocol)
        timed, notes = by_first_that_works(timers, partial(self._time_with, redraws, plan))
        self.checks.judge_kept_calls()
        return replace(timed, notes=notes + timed.notes), flush

    def _time_with(self, redraws: Redraws, plan: SamplingPlan, timer: Timer) -> _Timed:
        order = random.Random(self._request.seed)
        are_few = self.checks.is_large or self._request.searching
        most = _FEW_LOOKS if are_few else _LOOKS
        calls = plan.warmup + plan.minimum
        certain = secret.randrange(calls) if most else None
        looks = max(most - 1, 0) / calls
        candidate = self.make_side(redraws, timer.method, looks, certain=certain)
        limit_s = _REFERENCE_S if self._request.searching else math.inf
        subject = self._reference_subject(redraws)
        sides = (candidate, *sides_in_turns(timer, subject, limit_s=limit_s))
        with self._setup.machine.conditions() as conditions:
            taken = sample_sides(sides, plan, order, inputs=redraws)
        screening = screen_calls(taken[0].ran, conditions.samples)
        beside = screen_calls(taken[1].ran, conditions.samples)
        first = _select_calls(taken[0], screening.kept)
        second = _select_calls(taken[1], beside.kept)
        names = ", ".join(screening.reasons)
        left_out = f"{screening.left_out} throttled calls left out ({names})."
        notes = (left_out,) if screening.left_out else ()
        seen = conditions.conditions_since()
        return _Timed(first, second, timer.method, seen, screening.evidence, notes, redraws)

    def _reference_subject(self, redraws: Redraws) -> Subject:
        graph = ReferenceGraph(self._setup.machine, self._protocol.calls)

        def call_on(shared: Shared) -> Callable[[], Any]:
            if self._protocol.calls_in_graph:
                return graph.replay_on(shared)
            seed_everything(shared.trial.seed)
            own = copy_workload(shared.trial.workload) if shared.written else shared.trial.workload
            return own.run_reference

        def warm() -> None:
            """Warm up as the candidate does: see `solkit.measure.guarded.candidate`."""
            if redraws.other is not None:
                call_on(redraws.other)()
                call_on(redraws.current)
            for storage in redraws.current.packed.storages:
                read_through(storage)

        return Subject("reference", lambda: call_on(redraws.current), lambda: warm)

    def make_side(
        self,
        redraws: Redraws,
        method: str,
        looks: float,
        protocol: TimingProtocol | None = None,
        certain: int | None = None,
    ) -> Side:
        """Return the candidate as a side that is sampled, by the request's protocol or another one.

        After each call a secret draw decides whether its outputs are kept and judged, as they are
        for the share `looks` of the calls, and for the call whose number is `certain`.
        """
        by = protocol or self._protocol

        def start() -> None:
            self.remote.start(by.name, method)
            for name in redraws.names if by.calls_in_graph else ():
                self.remote.capture(name, self._request.seed, by.calls_in_graph)

        numbers = itertools.count()

        def call() -> None:
            is_judged = (next(numbers) == certain) | (secret.random() < looks)
            self._timed_call(redraws, is_judged, by.calls_in_graph)

        return Side(start, call, self.remote.stop)

    def _timed_call(self, redraws: Redraws, is_judged: bool, calls: int) -> None:
        shared, other = redraws.current, redraws.other
        before = None if other is None else other.trial.name
        self.remote.call(shared.trial.name, shared.trial.seed, calls, before)
        if is_judged and not (shared.written and calls > 1):  # a graph's calls overwrite each other
            self.checks.keep_last_call(shared, "a timed call")
        if shared.written:
            shared.restore()

    def check_graphs(self, told_ms: Sequence[float], redraws: Redraws) -> None:
        """Check times of graphs that hold many calls, which all get the same inputs.

        A candidate could answer all but the first from memory. So single calls are timed, too.
        """
        if self._protocol.calls == 1 or redraws.kind == "same":
            return
        single = find_protocol("warm-graph")

        def sample_single(timer: Timer) -> Series:
            side = self.make_side(redraws, timer.method, 0.0, single)
            return sample_sides([side], _SINGLE, random.Random(), inputs=redraws)[0]

        taken, _ = by_first_that_works(self._setup.machine.timers(single)[0], sample_single)
        single_ms, many_ms = median(taken.spans_ms), median_interval(told_ms).high
        if single_ms > _SINGLE_FACTOR * many_ms + _SINGLE_MORE_MS:
            text = (
                f"In graphs of {self._protocol.calls} calls on the same inputs a call took "
                f"{many_ms:.4g} ms, but a single call on new inputs {single_ms:.4g} ms."
            )
            raise CandidateError(Verdict.CHEATING, (text,))

    def check_times(self, told_ms: Sequence[float], shared: Shared) -> WallClock:
        """Check the times that the candidate's process reported against the referee's clock."""
        self.checks.check_kernels()
        rows = _Rows(self.checks, self.remote, shared, self._setup)
        clock = check_by_wall_clock(median_interval(told_ms).high, rows)
        if clock.contradiction is not None:
            raise CandidateError(Verdict.CHEATING, (clock.contradiction,))
        self.checks.heed_findings(self.remote.look(guarded=True).findings)
        return clock


@dataclass(frozen=True)
class _Rows:
    """Rows of calls: see `solkit.measure.timing.wallclock.Calls`."""

    checks: Checks
    remote: Remote
    shared: Shared
    setup: Setup

    def row(self, calls: int, behind_s: float) -> float:
        """Begin a row with the same inputs, after the referee's own work is done."""
        if self.shared.written:
            self.shared.restore()
        self.setup.machine.synchronize()
        return self._repeat_calls(calls, behind_s, wait=True)

    def launch(self, calls: int, behind_s: float) -> float:
        """Launch a row, and finish its work before the next request."""
        taken_s = self._repeat_calls(calls, behind_s, wait=False)
        self.remote.settle()
        return taken_s

    def judge(self) -> None:
        """Judge the last call of a row, unless the calls overwrite one another's inputs."""
        if not self.shared.written:
            self.checks.judge_last_call(self.shared, "the last of a row of calls")

    def _repeat_calls(self, calls: int, behind_s: float, wait: bool) -> float:
        trial = self.shared.trial
        return self.remote.repeat(trial.name, trial.seed, calls, behind_s, wait)


def _select_calls(series: Series, kept: Sequence[bool]) -> Series:
    lists = series.times, series.ran, series.begun
    return Series(*(list(itertools.compress(values, kept)) for values in lists))


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
