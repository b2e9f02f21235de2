"""The search over variants of one kernel at one shape: propose, rank, measure, keep, practise.

::

    measure the original
    as long as the budget lasts:
        if nothing that is left promises enough, or much was measured since the last round:
                choose a parent, ask the proposers, rank
        check what promises most, and measure it

What ranks and what measures comes from outside (`VariantEvaluator`), so the loop is the same on a
GPU and on a recording. It reads no clock of its own. An evaluator with a GPU proposes and ranks
while candidates are measured (`VariantEvaluator.begin`): a round then builds on what was known when
it began. The first one begins before the original is measured.

What promises most is also studied ahead: compiled, forecast once more, and checked. The GPU takes
the most promising of what is ready. It waits only if nothing that is ready promises a gain, and a
moment if something else promises far more::

    ranked ─► foreseen ─► compiled ─┬─ surely too slow, or cannot be used ─► dismissed
                 │                  ▼
                 └──► checked ─► ready ─► measured

Then the practice (`solkit.tuner.evolution.practising`) chooses who meets the original at the gate.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from solkit.core import (
    HOPELESS,
    Bred,
    Brief,
    Checked,
    EvolveSettings,
    EvolveStatus,
    Order,
    Proposal,
    Result,
    Stopped,
    Tried,
    TuneProgress,
    Variant,
    Verdict,
    canonical,
    variant_id,
)
from solkit.errors import SolkitError, WorkerError
from solkit.measure.checking.remedies import remedy_of
from solkit.spans import span
from solkit.tuner.common_failure import failure_reason
from solkit.tuner.early_stopping import TaskSettings
from solkit.tuner.evolution.acquisition import Frontier, Point, Shares
from solkit.tuner.evolution.bandit import Bandit
from solkit.tuner.evolution.population_archive import Archive
from solkit.tuner.evolution.practising import finalists
from solkit.tuner.evolution.shared_faults import fault_of_all, shared_fault
from solkit.tuner.evolution.variant_evaluator import (
    Ranking,
    Study,
    VariantEvaluator,
    VariantOutcome,
)
from solkit.tuner.proposers import Proposer

_PER_ROUND = 6
"""Measurements after which new proposals are asked for, though some of the old are left."""
_LOOKED_AT, _FIRST_LOOKED_AT = 3, 1.5
"""So many times the proposals that go on are taken from a proposer, for the bandit to choose."""
EXPECTED = 3  # of the variants that come outside of the rounds: the search waits for them
_AHEAD = 2  # proposals that are ranked before the others of a round that the GPU waits for
_READY_SHARE = 0.5
"""Share of the largest expected gain for which the GPU does not wait."""
_PATIENCE_S = 0.5
"""Seconds that the GPU waits for what promises more: about those of a measurement."""
_STARVED_S = 2.0
"""Seconds without anything to measure after which proposals are asked for, though some of the old
that are left still promise a gain."""
_UNUSED_S = 3.0
"""Seconds after which a GPU that waits measures the best that is ready, though it promises hardly
anything: forecasts err, and a budget that is not spent finds nothing. Without patience, it waits as
long as for what promises more."""
_SAVED_SHARE, _SAVED_S = 0.5, 15.0
"""Share of the budget that is kept for variants that are known to come, until the GPU has waited so
long: those of the rounds that are ready earlier would take all of it."""
_CLEAR_GAIN = 0.1  # what is ready and promises that much is measured all the same
_PATIENT_SHARE = 0.5
"""Share of the budget, in seconds: as long the GPU may wait in all, from the first variant on,
though something is ready, since what is not studied yet promises far more, or a gain at all."""
_FEW, _FEW_SHARE = 3.0, 2.0
"""Measurements that a small rest of the budget pays for, at the most; and how many times as long as
this rest the GPU may wait in a row for something to spend it on."""
_LOOK_S = 1.0  # how often it looks, while it waits, whether what it waits for is late
_IDLE_S, _IDLE_ROUNDS = 30.0, 2
"""The search waits for no more proposals once the GPU has had nothing to do for so long, and in so
many rounds since its last measurement nobody proposed what promises a gain: one went on for four
minutes, on 16 cores. What may be faster all the same is then measured, and opens the next round."""
_LATE_SHARE = 0.2
"""Share of the budget at whose end the best variant is compiled for the practice. Then the GPU need
not wait for that: what follows rarely is faster."""
_MOST_TOLD = 24  # of earlier attempts, in a brief
_BLAMED = (Verdict.WRONG, Verdict.CHEATING, Verdict.IMPOSSIBLE)
"""Verdicts on a variant whatever its parameters."""


Streams = Sequence[tuple[Proposer, Iterator[Proposal]]]
Answers = list[tuple[Proposer, list[Proposal], "SolkitError | None"]]
"""Proposals of each proposer, and the error that ended them."""


@dataclass(frozen=True)
class _Portion:
    """Proposals that come at a time, of each proposer: those that go on, of so many looked at."""

    chosen: int
    looked_at: int


class EvolutionSearch:
    """One search.

    Args:
        evaluator: ranks and measures.
        proposers: asked in turns.
        original: what the search starts from, with the parameters in use.
        budget_s: GPU seconds.
        settings: how to search.
        sol_ms: the speed of light; ``None`` if it is unknown.
        shares: of the errors of forecasts.
        show: receives how far it is.

    Attributes:
        proposers: as given.
        archive: all variants.
        first_ms: what the original took with the parameters in use; ``None`` if it failed.
        results: the best result of each variant, by its id.
        trajectory: how the best time fell.
        rounds: how often proposals were asked for.
        measured, failed: configurations that were measured, and failed ones.
        notes: what limits the search, each a sentence.
        kept_s: GPU seconds of the budget that are left for the practice, where there are several
            finalists.
        sol_ms: as given, until a time beats it.
        replan: gives the speed of light of a better algorithm, for a right time that beats the one
            of the algorithm as written; ``None`` if none is known.
        prepare_practice: does what the practice needs of a variant without a GPU. It is called
            while candidates are measured: with the original once the GPU has something to do, and
            with the best one when the search nears its end.
        coming: further variants of the original, written outside of the rounds, by proposer. The
            search waits for the first three. One that is nothing is ``None``.
    """

    def __init__(
        self,
        evaluator: VariantEvaluator,
        proposers: Sequence[Proposer],
        original: tuple[Variant, Point],
        budget_s: float,
        settings: EvolveSettings,
        sol_ms: float | None = None,
        shares: Shares | None = None,
        show: Callable[[EvolveStatus], None] = lambda _: None,
    ) -> None:
        self._evaluator, self.proposers, self._how = evaluator, tuple(proposers), settings
        self._budget_s, self.sol_ms, self._show = budget_s, sol_ms, show
        variant, self._first = original
        self.archive = Archive(variant, settings.seed)
        self._bandit = Bandit(settings.seed)
        self._frontier = Frontier(Order(settings.order), settings.seed, shares, self._lineage)
        self._since_round = _PER_ROUND  # the first round comes at once
        self._briefs: dict[str, Brief] = {}  # the latest of each parent
        self._looked: set[str] = set()  # variants whose results were checked
        self._open = list(proposers)  # those that can still be asked
        self.results: dict[str, Result] = {}
        self.trajectory: list[TuneProgress] = []
        self.first_ms: float | None = None
        self.rounds = self.measured = self.failed = 0
        self.notes: list[str] = []
        self.kept_s = 0.0
        self.replan: Callable[[float], float | None] = lambda _: None
        self.prepare_practice: Callable[[Bred], object] = lambda _: None
        self._prepared: set[tuple[str, str]] = set()  # for the practice
        self.coming: list[Future[tuple[str, Proposal] | None]] = []
        self._expected: Sequence[Future[Any]] = ()
        self._round: Generator[Future[Any], None, None] | None = None
        self._awaited: Future[Any] | None = None  # what the round cannot go on without
        self._rounds_since = 0  # that ended since the last measurement
        self._idle_before_s = 0.0  # the GPU's when the last of these did
        self._patience_s = _PATIENT_SHARE * budget_s  # that is left
        self._rankings: list[Future[Ranking]] = []  # of what no round proposed
        self._original_ended: Future[None] = Future()  # when it is measured
        self._compiled: dict[tuple[str, str], Study] = {}  # candidates that may be hopeless
        self._refused: set[str] = set()  # variants of which a candidate was
        self._barred: set[str] = set()  # variants that proved to be wrong late, with their kin
        self._is_over = False

    def run(self) -> Stopped:
        """Search until something ends it; an interrupt (Ctrl-C) does as well."""
        try:
            return self._run_search()
        except KeyboardInterrupt:
            return Stopped.INTERRUPTED
        finally:
            self._is_over = True
            self.notes += [note] if (note := fault_of_all(self.archive)) else []

    def adopt_measurement(self, variant: Variant, point: Point, result: VariantOutcome) -> None:
        """Take over what an earlier run measured."""
        self.archive.add(variant)
        self._learn_measurement(point, variant, result)

    # --------------------------------------------------------------------------------- the course

    def _run_search(self) -> Stopped:
        self._expected = self.coming[:EXPECTED]
        if self._evaluator.overlaps and self._open and self.archive.best.time_ms is None:
            self._begin_round(self.archive[self.archive.original])
        self._measure_original()
        if self.archive.best.time_ms is None:
            why = self.archive[self.archive.original].why
            if why:
                self.notes.append(f"The original fails: {why.rstrip('.')}. {remedy_of(why)}")
            return Stopped.NOTHING_RUNS
        while (stopped := self._stop_reason()) is None:
            waits = not self._evaluator.overlaps
            self._advance_round(waits and (len(self.archive) == 1 or not self._promises_gain()))
            if self._evaluator.overlaps and (stopped := self._stop_reason()) is not None:
                break  # for want of anything in the round that has ended
            if (point := self._next_point()) is not None:
                self._measure_point(point)
            elif self._is_exhausted():
                return Stopped.EXHAUSTED
        return stopped

    def _is_exhausted(self) -> bool:
        is_idle = self._round is None and not self._outside_rounds()
        return is_idle and not self._can_propose() and not self._frontier.remaining()

    def _measure_original(self) -> None:
        """Measure the original, and rank what else the parameters of what is known may be."""
        original = self.archive[self.archive.original]
        if original.measured == 0:
            self.tell("original")
            self._measure_point(self._first)
        self._original_ended.set_result(None)
        if (time_ms := self.archive[self.archive.original].time_ms) is not None:
            timed = [bred.variant for bred in self.archive if bred.time_ms is not None]
            self.tell("ranking")
            self._begin_ranking(timed, time_ms)
            self._take_rankings()

    # ------------------------------------------------------------------------- outside of rounds

    def _begin_ranking(self, variants: Sequence[Variant], otherwise_ms: float) -> None:
        ranked = self._evaluator.begin(partial(self._evaluator.rank, variants, otherwise_ms))
        self._rankings.append(ranked)

    def _take_rankings(self) -> None:
        """Take over what was ranked, and have what has come since ranked."""
        for ranking in [ranking for ranking in self._rankings if ranking.done()]:
            self._rankings.remove(ranking)
            self._take_ranking(ranking.result())
        come = [future for future in self.coming if future.done()]
        self.coming = [future for future in self.coming if future not in come]
        self._take_coming([written for future in come if (written := future.result()) is not None])

    def _take_coming(self, written: Sequence[tuple[str, Proposal]]) -> None:
        """Take in variants of the original that were written outside of the rounds."""
        original = self.archive[self.archive.original]
        if original.time_ms is None:
            return
        for proposer, proposal in written:
            variant = _variant_of_proposal(proposal, original.variant.id, proposer)
            if variant.id not in self.archive:
                self.archive.add(variant)
                self._begin_ranking([variant], original.time_ms)  # none waits for another one's

    def _outside_rounds(self) -> list[Future[Any]]:
        """Return what the search waits for that no round does."""
        return [*self._rankings, *(future for future in self._expected if future in self.coming)]

    # ------------------------------------------------------------------------------------- ahead

    def _next_point(self) -> Point | None:
        """Return what to measure next; ``None`` if the GPU had to wait, or nothing is left."""
        if not self._evaluator.overlaps:
            return self._frontier.choose()
        self._look_ahead()
        awaited = None if self._waits_in_vain() else self._awaited
        pending = [*([] if awaited is None else [awaited]), *self._outside_rounds()]
        if self._how.order is Order.RANDOM:  # nothing is studied ahead
            if (point := self._frontier.choose()) is None and pending:
                self._evaluator.await_any(pending, _LOOK_S)
            return point
        ready, best = self._frontier.gain(self._is_due), self._frontier.gain(self._is_open)
        if ready < _READY_SHARE * best and self._evaluator.await_any(pending, _PATIENCE_S):
            self._look_ahead()
            ready = self._frontier.gain(self._is_due)
        if self._saves_budget(ready):
            with span("waiting for what comes"):
                self._evaluator.await_any([*pending, *self.coming], _LOOK_S)
            return None
        if self._expects_more(ready, best):
            with span("waiting for what promises more"):
                self._evaluator.await_any(pending, _LOOK_S)
            return None
        least = self._how.least_gain
        may_wait = bool(pending) or self._can_propose() or best > least
        point = None
        if ready > least:
            point = self._frontier.choose(self._is_due)
        elif not may_wait:
            point = self._frontier.choose(self._evaluator.is_ready)
        elif self._evaluator.idle_s() > (_UNUSED_S if self._is_patient() else _PATIENCE_S):
            point = self._frontier.choose(self._is_due)
        if point is None:
            with span("waiting for a candidate"):
                is_under_way = self._evaluator.await_any(pending, _LOOK_S)
            if not is_under_way and not self._can_propose():
                point = self._frontier.choose()  # made ready when it is measured
        return point

    def _saves_budget(self, ready: float) -> bool:
        """Tell whether what is left of the budget waits for variants that come outside of rounds.

        Args:
            ready: the gain that the best that is ready promises.
        """
        is_low = self._evaluator.spent_s() >= _SAVED_SHARE * self._budget_s
        is_coming = bool(self.coming or self._rankings)
        return is_low and is_coming and ready < _CLEAR_GAIN and self._evaluator.idle_s() < _SAVED_S

    def _expects_more(self, ready: float, best: float) -> bool:
        """Tell whether the GPU waits for a candidate that promises a clear gain.

        Not where the first variant is ready: what this takes tells what forecasts are worth.

        Args:
            ready: the gain that the best that is ready promises.
            best: what the best of all promises.
        """
        is_clear = best >= _CLEAR_GAIN > ready and ready < _READY_SHARE * best
        is_first = self.measured <= 1 and ready > 0
        return is_clear and not is_first and self._is_patient()

    def _is_patient(self) -> bool:
        """Tell whether the GPU may wait though it has something to do."""
        return self._evaluator.idle_s() < self._patience_s

    def _is_open(self, point: Point) -> bool:
        return not self._evaluator.is_late(point) and not self._frontier.is_hopeless(point)

    def _is_due(self, point: Point) -> bool:
        """Tell whether a candidate is ready, and worth a measurement before others are known."""
        return self._evaluator.is_ready(point) and not self._frontier.is_hopeless(point)

    def _lineage(self, variant: str) -> Iterator[str]:
        """Yield a variant and what it was made of, the original left out."""
        while (parent := self.archive[variant].variant.parent) is not None:
            yield variant
            variant = parent

    def _look_ahead(self) -> None:
        """Take over what was found out of candidates, and have the next ones studied."""
        self._take_rankings()
        self._take_late_checks()
        for study in self._evaluator.studied():
            self._learn_study(study)
        self._dismiss_hopeless()
        self._evaluator.foresee(self._frontier.foremost())

    def settle_checks(self) -> bool:
        """Hear what late checks say of the finalists; tells whether one of these was wrong."""
        if not self._evaluator.overlaps:
            return False
        names = [bred.variant.id for bred in finalists(self.archive, self.first_ms)]
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the wait
            self._evaluator.await_checks(names)
        self._take_late_checks()
        return not self._barred.isdisjoint(names)

    def _take_late_checks(self) -> None:
        for variant in self._evaluator.checked_late():
            self.archive.note(variant.id, variant=variant)
            if self._refuse_if_wrong(variant):
                self._bar(variant)

    def _bar(self, wrong: Variant) -> None:
        """Bar a variant that proved to be wrong late, and what was made of it and judged by it."""
        for bred in [bred for bred in self.archive if wrong.id in self._lineage(bred.variant.id)]:
            self._frontier.disown(bred.variant.id)
            self._barred.add(bred.variant.id)
            if bred.time_ms is not None:
                changes = {"verdict": Verdict.WRONG, "time_ms": None, "gap": None}
                self.archive.note(bred.variant.id, why=wrong.why, **changes)
                self.trajectory = [p for p in self.trajectory if p.best_ms != bred.time_ms]

    def _learn_study(self, study: Study) -> None:
        if study.refused:
            self._dismiss(study.point, study.refused)
            if study.is_telling:
                self._frontier.tell(study.point, None)
            if study.is_endless:
                self._frontier.tell_endless(study.point)
            return
        self._frontier.refine(study.point)
        if study.low_ms is not None:
            self._compiled[study.point.key] = study

    def _dismiss_hopeless(self) -> None:
        """Dismiss candidates that surely take much longer than the best one, by their forecasts.

        A ranking before compiling knows of no spills, which may take a tile ten times as long. What
        was measured must not say otherwise: an original that takes a quarter of its forecast.
        """
        if (best_ms := self._frontier.best_ms) is None:
            return
        limit_ms = HOPELESS * best_ms
        slow = [study for study in self._compiled.values() if (study.low_ms or 0.0) > limit_ms]
        least_ms = self._frontier.least_ms([study.point for study in slow])
        for study, believed_ms in zip(slow, least_ms, strict=True):
            if believed_ms > limit_ms:
                del self._compiled[study.point.key]
                at_least = f"{study.low_ms:.3g} ms or more by its forecast"
                self._dismiss(
                    study.point, f"Compiled, it takes {at_least}: over {limit_ms:.3g} ms."
                )

    def _dismiss(self, point: Point, why: str) -> None:
        """Do not measure a candidate; its kind did not pay if nothing of its variant was."""
        self._frontier.dismiss(point)
        bred = self.archive[point.variant]
        if bred.measured == 0 and bred.variant.parent is not None:
            about = {"params": point.configuration.params, "forecast_ms": 2.0**point.mean}
            self.archive.note(point.variant, why=why, **about)
            if point.variant not in self._refused:
                self._refused.add(point.variant)
                self._bandit.tell(bred.variant.kind, None)

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        """Let the round go on in the block, which measures and changes nothing of the search."""
        if not self._evaluator.overlaps or self._round is None:
            yield
            return
        is_over: Future[None] = Future()
        with ThreadPoolExecutor(1, "round") as threads:
            rounds = threads.submit(self._continue_until, is_over)
            try:
                yield
            finally:
                is_over.set_result(None)
            rounds.result()

    def _continue_until(self, is_over: Future[None]) -> None:
        while not is_over.done() and (awaited := self._awaited) is not None:
            wait((awaited, is_over), return_when=FIRST_COMPLETED)
            if awaited.done() and not is_over.done():
                self._continue_round()

    def _stop_reason(self) -> Stopped | None:
        best_ms = self.archive.best.time_ms
        if self.sol_ms is not None and best_ms and self.sol_ms / best_ms >= self._how.stop_at:
            return Stopped.SPEED_OF_LIGHT
        left_s = self._left_s()
        if left_s <= 0 or self._waits_for_little(left_s):
            return Stopped.BUDGET
        in_vain = self._waits_in_vain()
        is_busy = (self._round is not None and not in_vain) or bool(self._outside_rounds())
        if is_busy or self._promises_gain() or self._can_propose():
            return None
        if not self._may_be_better():
            if in_vain:
                waited = f"The GPU waited {self._evaluator.idle_s():.0f} s in a row"
                self.notes.append(f"{waited}, and {self._rounds_since} rounds promised no gain.")
            return Stopped.EXPECTED_GAIN if self._frontier.remaining() else Stopped.EXHAUSTED
        return None

    def _waits_for_little(self, left_s: float) -> bool:
        """Tell whether little is left of the budget, and the GPU waits for long beside that.

        A search waited for 37 s to spend its last 2 s.
        """
        usual_s = self._evaluator.spent_s() / max(self.measured, 1)
        is_little = left_s < min(_FEW * usual_s, _LATE_SHARE * self._budget_s)
        if not is_little or self._evaluator.idle_s() < _FEW_SHARE * left_s:
            return False
        if self._frontier.gain(self._is_due) > 0:  # something can be measured
            return False
        self.notes.append(f"{left_s:.1f} s were left, and nothing to measure in time.")
        return True

    def _waits_in_vain(self) -> bool:
        """Tell whether proposals go on and on, and nothing that is known promises a gain."""
        is_long = self._rounds_since >= _IDLE_ROUNDS and self._evaluator.idle_s() > _IDLE_S
        if not is_long or self._promises_gain():
            return False
        late = self._frontier.gain(lambda point: not self._frontier.is_hopeless(point))
        return late <= self._how.least_gain  # the studies of what is late end, too

    def _left_s(self) -> float:
        """Return the GPU seconds that are left for the search."""
        return self._budget_s - self._practice_budget_s() - self._evaluator.spent_s()

    def _practice_budget_s(self) -> float:
        has_choice = self.kept_s > 0 and len(finalists(self.archive, self.first_ms)) > 1
        return self.kept_s if has_choice else 0.0

    def _promises_gain(self) -> bool:
        """Tell whether what is left is worth a measurement."""
        if self._how.order is Order.RANDOM:
            return bool(self._frontier.remaining())
        return self._frontier.gain(self._is_open) > self._how.least_gain

    def _may_be_better(self) -> bool:
        """Tell whether something clearly faster may be among what is left."""
        if self._how.order is Order.RANDOM or not self._how.least_gain:
            return bool(self._frontier.remaining())
        return self._frontier.better_chance() >= TaskSettings.better_chance

    def better_chance(self) -> float | None:
        """Return the chance that a ranked candidate is clearly faster; ``None`` if unknown.

        It says nothing where nothing but the original could be ranked.
        """
        is_known = self._frontier.best_ms is not None
        is_known &= self.measured > 1 or bool(self._frontier.remaining())
        return self._frontier.better_chance() if is_known else None

    def _wants_proposals(self) -> bool:
        due = self._since_round >= _PER_ROUND or self._is_starved() or not self._promises_gain()
        return due and self._can_propose()

    def _is_starved(self) -> bool:
        """Tell whether the GPU waits since the last round, and nothing ready promises a gain.

        What is studied meanwhile may not either: proposals take seconds until one can be measured.
        """
        waited_s = self._evaluator.idle_s() - self._idle_before_s
        if waited_s < _STARVED_S or self._how.order is Order.RANDOM:
            return False
        return self._frontier.gain(self._is_due) <= self._how.least_gain

    def _can_propose(self) -> bool:
        is_open = bool(self._open) and self.archive.parent_is_open
        return is_open and not self._waits_in_vain()

    # ---------------------------------------------------------------------------------- proposing

    def _advance_round(self, is_awaited: bool) -> None:
        """Begin a round if one is due, and take over what is ready of the one that runs."""
        if self._round is None and self._wants_proposals():
            self._since_round = 0
            if (parent := self.archive.parent()) is not None:
                self._begin_round(parent)
        while self._awaited is not None and (is_awaited or self._awaited.done()):
            self._continue_round()

    def _begin_round(self, parent: Bred) -> None:
        self._since_round = 0
        self.rounds += 1
        self._round = self._run_round(parent)
        self._continue_round()

    def _continue_round(self) -> None:
        """Run the round up to the next work that it has to wait for."""
        assert self._round is not None
        self._awaited = next(self._round, None)
        if self._awaited is None:
            self._round = None
            self._rounds_since += 1
            self._idle_before_s = self._evaluator.idle_s()

    def _run_round(self, parent: Bred) -> Generator[Future[Any], None, None]:
        """Run one round: proposals for one parent, ranked. They are checked when measured."""
        self.tell("proposing")
        name = parent.variant.id
        brief = self._evaluator.brief(
            parent, self.results.get(name), self._earlier_attempts(parent)
        )
        self._briefs[name] = brief
        self._evaluator.expect_parent(brief)
        streams = [(proposer, self._proposals(proposer, brief)) for proposer in self._open]
        portions = self._portions()
        answering, is_barren = self._begin_asking(streams, portions[0]), True
        for portion, following in zip(portions, [*portions[1:], None], strict=True):
            yield answering
            answers = answering.result()
            if following is not None:  # they are written while the first are ranked
                answering = self._begin_asking(streams, following)
            new = self._add_variants(answers, name, portion)
            is_barren &= not new
            yield from self._rank_group(new, name)
        if is_barren:
            self.archive.mark_barren(name)

    def _portions(self) -> list[_Portion]:
        """Return how a round's proposals come: at once, or a few ahead if the GPU waits for them.

        Fewer are looked at before anything is measured: no kind has paid yet.
        """
        number, overlaps = self._how.proposals, self._evaluator.overlaps
        is_first = overlaps and self.archive.best.time_ms is None
        looked_at = _FIRST_LOOKED_AT if is_first else _LOOKED_AT
        whole = _Portion(number, int(looked_at * number))
        if not overlaps or number <= _AHEAD or (not is_first and self._promises_gain()):
            return [whole]
        ahead = _Portion(_AHEAD, _AHEAD if is_first else int(looked_at * _AHEAD))
        return [ahead, _Portion(number - ahead.chosen, whole.looked_at - ahead.looked_at)]

    def _begin_asking(self, streams: Streams, portion: _Portion) -> Future[Answers]:
        return self._evaluator.begin(partial(_ask_proposers, streams, portion.looked_at))

    def _add_variants(self, answers: Answers, parent: str, portion: _Portion) -> list[Variant]:
        """Take in the variants that go on, and have them checked."""
        chosen = self._chosen_variants(answers, parent, portion.chosen)
        new = [variant for variant in chosen if variant.id not in self.archive]
        for variant in new:
            self.archive.add(variant)
        self._expect_checks([variant for variant in new if not self._refuse_if_wrong(variant)])
        return new

    def _rank_group(
        self, variants: Sequence[Variant], parent: str
    ) -> Generator[Future[Any], None, None]:
        group = [variant for variant in variants if variant.checked is not Checked.WRONG]
        if not group or parent in self._barred:
            return
        self.tell("ranking")
        otherwise_ms = self.archive[parent].time_ms or math.nan  # the original is being measured
        ranking = self._evaluator.begin(partial(self._evaluator.rank, group, otherwise_ms))
        yield ranking
        if parent in self._barred:
            return
        points = ranking.result().points
        if self.archive[parent].time_ms is None and any(math.isnan(p.mean) for p in points):
            yield self._original_ended
        self._take_ranking(_with_means(ranking.result(), self.archive[parent].time_ms))

    def _proposals(self, proposer: Proposer, brief: Brief) -> Iterator[Proposal]:
        """Yield what a proposer makes of a brief, until the search ends."""
        yield from itertools.takewhile(lambda _: not self._is_over, proposer.propose(brief))

    def _chosen_variants(self, answers: Answers, parent: str, number: int) -> Iterator[Variant]:
        """Yield the proposals that the bandit chooses, so many of each proposer."""
        for proposer, proposals, error in answers:
            if error is not None:
                self._note_end(proposer, error)
            for proposal in self._bandit.chosen(self._new_proposals(proposals), number):
                yield _variant_of_proposal(proposal, parent, proposer.name)

    def _note_end(self, proposer: Proposer, error: SolkitError) -> None:
        """Note what ended a proposer, and ask it no more, unless its process failed on a parent."""
        name = proposer.name or "The model"  # a file of no answers names none
        note = f"{name} ended early on a variant: {error}"
        if not isinstance(error, WorkerError):
            self.notes.append(f"{name} was not asked again: {error}")
            self._open.remove(proposer)
        elif not self._is_over and note not in self.notes:
            self.notes.append(note)

    def _new_proposals(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        distinct = {variant_id(proposal.source): proposal for proposal in proposals}
        return [proposal for name, proposal in distinct.items() if name not in self.archive]

    def _refuse_if_wrong(self, variant: Variant) -> bool:
        """Tell whether a variant is known to be wrong before it is measured."""
        if variant.checked is not Checked.WRONG:
            return False
        self.archive.note(variant.id, why=variant.why)
        self._bandit.tell(variant.kind, None)
        return True

    def _take_ranking(self, ranking: Ranking) -> None:
        self._frontier.add(ranking.points)
        for name, why in ranking.refused.items():
            self.archive.note(name, why=why)
            self._bandit.tell(self.archive[name].variant.kind, None)
        best_of: dict[str, Point] = {}
        for point in sorted(ranking.points, key=lambda point: (point.p_fail, point.mean)):
            best_of.setdefault(point.variant, point)
        for name, best in best_of.items():
            changes = {"forecast_ms": 2.0**best.mean}
            if self.archive[name].measured == 0:
                changes["params"] = best.configuration.params
            self.archive.note(name, **changes)
        self._expect_checks([self.archive[name].variant for name in best_of])
        self._evaluator.foresee(self._frontier.foremost())

    def _expect_checks(self, variants: Sequence[Variant]) -> None:
        briefs = [(variant, self._brief_to_check(variant)) for variant in variants]
        self._evaluator.expect([(variant, brief) for variant, brief in briefs if brief is not None])

    def _earlier_attempts(self, parent: Bred) -> list[Tried]:
        """Return what was made of a parent, and what led to it, oldest first."""
        children = self.archive.children(parent.variant.id)
        while parent.variant.parent is not None:
            children.insert(0, parent)
            parent = self.archive[parent.variant.parent]
        return [self._describe_attempt(bred) for bred in children][-_MOST_TOLD:]

    def _describe_attempt(self, bred: Bred) -> Tried:
        verdict = None if bred.measured == 0 else bred.verdict
        gain = self.archive.gain(bred)
        return Tried(bred.variant.kind, bred.variant.intent, verdict, bred.gap, gain, bred.why)

    # ---------------------------------------------------------------------------------- measuring

    def _measure_point(self, point: Point) -> None:
        variant = self._check_once(self.archive[point.variant].variant)
        if self._refuse_if_wrong(variant):
            self._frontier.drop(variant.id)
            return
        if point.key != self._first.key and (why := shared_fault(variant, self.archive)):
            self.archive.note(variant.id, why=why)
            self._bandit.tell(variant.kind, None)
            self._frontier.drop(variant.id)
            return
        self._evaluator.foresee(self._frontier.foremost())
        if self.measured > 1:
            self._patience_s -= self._evaluator.idle_s()
        with self._going_on():
            outcome = self._evaluator.measure(self._limit_hopeless(point), variant)
        self._learn_measurement(point, variant, outcome)
        self._since_round += 1
        self.tell("measuring")

    def _limit_hopeless(self, point: Point) -> Point:
        """Limit a candidate to the time beyond which it is hopeless; it still counts as slow."""
        if (best_ms := self._frontier.best_ms) is None:
            return point
        limited = replace(point.configuration, hopeless_ms=HOPELESS * best_ms)
        return replace(point, configuration=limited)

    def _check_once(self, variant: Variant) -> Variant:
        """Return the variant with what is known of its results, which is found out once."""
        if (brief := self._brief_to_check(variant)) is None:
            return variant
        self._looked.add(variant.id)
        self.tell("checking")
        variant = self._evaluator.check(variant, brief)
        self.archive.note(variant.id, variant=variant)
        return variant

    def _brief_to_check(self, variant: Variant) -> Brief | None:
        """Return the brief of a variant that is to be checked; ``None`` if it is not."""
        if variant.checked is not Checked.UNCHECKED or variant.id in self._looked:
            return None
        return None if variant.parent is None else self._briefs.get(variant.parent)

    def _learn_measurement(self, point: Point, variant: Variant, result: VariantOutcome) -> None:
        """Learn from a measurement."""
        self.measured += 1
        self._rounds_since, self._idle_before_s = 0, 0.0
        self.failed += result.time_ms is None
        if point.key == self._first.key:
            self.first_ms = result.time_ms
        is_telling = failure_reason(result.verdict, result.why) is not None
        self._frontier.tell(point, result.time_ms, is_telling)
        if result.verdict in _BLAMED:
            self._frontier.drop(variant.id)
        self._replan_if_beaten(result)
        before = self.archive[variant.id]
        self._keep_result(before, point, result)
        after = self.archive[variant.id]
        if before.measured == 0 and variant.parent is not None:
            self._bandit.tell(variant.kind, self.archive.gain(after))
        self._prepare_practice()

    def _prepare_practice(self) -> None:
        """Prepare the practice of the original, and of what is the best near the end."""
        if self.measured < _PER_ROUND or not self._evaluator.overlaps:
            return
        practising = [] if self._prepared else [self.archive[self.archive.original]]
        if self._left_s() < _LATE_SHARE * self._budget_s:
            practising.append(self.archive.best)
        for bred in practising:
            if (name := (bred.variant.id, canonical(bred.params))) not in self._prepared:
                self._prepared.add(name)
                self._evaluator.begin(partial(self.prepare_practice, bred))

    def _replan_if_beaten(self, result: VariantOutcome) -> None:
        """Compare with a better algorithm from now on, if a time beats the one as written."""
        time_ms, sol_ms = result.time_ms, self.sol_ms
        if result.verdict is not Verdict.BEATS_ALGORITHM or time_ms is None or sol_ms is None:
            return
        if time_ms < sol_ms:
            self.sol_ms = self.replan(time_ms)
            for bred in self.archive:
                self.archive.note(bred.variant.id, gap=self._gap_of(bred.time_ms))

    def _gap_of(self, time_ms: float | None) -> float | None:
        return None if time_ms is None or not self.sol_ms else time_ms / self.sol_ms

    def _keep_result(self, before: Bred, point: Point, result: VariantOutcome) -> None:
        name, best_ms = before.variant.id, self.archive.best.time_ms
        self.archive.note(name, measured=before.measured + 1)
        is_better = result.time_ms is not None and (
            before.time_ms is None or result.time_ms < before.time_ms
        )
        if not is_better and (before.measured > 0 and before.time_ms is not None):
            return
        gap = self._gap_of(result.time_ms)
        self.archive.note(
            name,
            verdict=result.verdict,
            params=point.configuration.params,
            time_ms=result.time_ms,
            gap=gap,
            behaviour=result.behaviour,
            why=result.why,
        )
        if result.result is not None:
            self.results[name] = result.result
        if result.time_ms is not None and (best_ms is None or result.time_ms < best_ms):
            self.trajectory.append(TuneProgress(self._evaluator.spent_s(), result.time_ms))

    def tell(self, stage: str) -> None:
        """Show how far the search is."""
        best = self.archive.best
        self._show(
            EvolveStatus(
                stage,
                self._evaluator.spent_s(),
                self._budget_s,
                len(self.archive) - 1,
                self.measured,
                self.failed,
                best.time_ms,
                best.gap,
                best.variant.kind,
            )
        )


def _with_means(ranking: Ranking, otherwise_ms: float | None) -> Ranking:
    """Return the ranking with a time expected where nothing is known: an undefined mean."""
    if otherwise_ms is None:
        return ranking
    points = [
        replace(point, mean=math.log2(otherwise_ms)) if math.isnan(point.mean) else point
        for point in ranking.points
    ]
    return replace(ranking, points=points)


def _ask_proposers(streams: Streams, number: int) -> Answers:
    """Return what comes next of each proposer; this changes nothing of the search."""
    answers: Answers = []
    for proposer, proposals in streams:
        written: list[Proposal] = []
        ended_by: SolkitError | None = None
        with span("proposing"):
            try:
                written.extend(itertools.islice(proposals, number))  # what precedes an error stays
            except SolkitError as error:
                ended_by = error
        answers.append((proposer, written, ended_by))
    return answers


def _variant_of_proposal(proposal: Proposal, parent: str, proposer: str) -> Variant:
    return Variant(
        variant_id(proposal.source),
        proposal.source,
        parent,
        proposal.kind,
        proposal.intent,
        proposer,
        proposal.checked,
        proposal.why,
    )
