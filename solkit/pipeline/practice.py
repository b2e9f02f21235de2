"""Practice: finalists of a search at further shapes, and what a winner leaves to the original."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from solkit.core import (
    Bred,
    Configuration,
    Finalist,
    Outcome,
    Practised,
    Value,
    Variant,
    Verdict,
    canonical,
    variant_id,
)
from solkit.core.quantities import settings_text
from solkit.errors import InputError, SolkitError
from solkit.pipeline.kernel_evaluator import KernelEvaluator
from solkit.pipeline.studying import Shape

if TYPE_CHECKING:
    from solkit.tuner.evolution.acquisition import Point
    from solkit.tuner.evolution.evolution_search import EvolutionSearch
    from solkit.tuner.evolution.variant_evaluator import VariantOutcome
    from solkit.tuner.proposers.rewriter.size_guard import SizeBound

SIZE_GUARD = "original below"
"""Kind of the variant that leaves small inputs to the original launches."""
_AS_FAST = 1.1
"""Such a variant takes so many times what it was made from at the most: a sample each was taken."""
_NOT_LEFT = "Small inputs could not be left to the original"
_KEPT_SHARE, _KEPT_S = 0.2, 15.0  # of the budget, and at most: some ten measurements


@dataclass
class Practice:
    """Times finalists at practice shapes, within the budget of the search.

    Attributes:
        evaluator: measures.
        budget_s: GPU seconds of the search and the practice.
        notes: what limits the result, each a sentence.
    """

    evaluator: KernelEvaluator
    budget_s: float
    notes: list[str] = field(default_factory=list)
    _known: dict[tuple[str, str, str], list[VariantOutcome]] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)  # shapes at which the processes failed
    _guards: dict[str, Sequence[SizeBound]] = field(default_factory=dict)  # of joined files

    def shapes(self) -> list[Mapping[str, Value]]:
        """Return shapes to practise at, but for those that a recording lacks."""
        original = self.evaluator.original
        every = original.practice(self.evaluator.how)
        return [e for e in every if self.evaluator.holds(replace(original.configuration, shape=e))]

    def prepare(self, bred: Bred) -> None:
        """Study a variant at the shapes, so that practice and gate need not wait for that."""
        if self.evaluator.fits_one_shape(bred.variant):
            return  # the original's launches run there
        with contextlib.suppress(SolkitError):  # the practice meets it again, and says so
            held_out = self.evaluator.original.others(self.evaluator.how)
            for shape in (*self._accepted_shapes(), *held_out):
                if not self.evaluator.is_closed:
                    self.evaluator.prospect_of(self._point_at(bred, shape).configuration)

    def _accepted_shapes(self) -> list[Mapping[str, Value]]:
        """Return the shapes that the original can run, as many as finalists practise at."""
        from solkit.tuner.evolution.practising import MOST_SHAPES

        shapes = itertools.takewhile(lambda _: not self.evaluator.is_closed, self.shapes())
        accepted = filter(self.evaluator.accepts_shape, shapes)
        return list(itertools.islice(accepted, MOST_SHAPES))

    def kept_s(self) -> float:
        """GPU seconds that the search leaves."""
        return min(_KEPT_SHARE * self.budget_s, _KEPT_S) if self.shapes() else 0.0

    def take(self, name: str, outcome: Outcome) -> None:
        """Take over what an earlier run measured of a variant."""
        if outcome.verdict is not Verdict.UNSTABLE:  # it was measured again
            key = name, canonical(outcome.params), canonical(outcome.shape)
            self._known.setdefault(key, []).append(self.evaluator.judged(None, outcome))

    def run(self, breeding: EvolutionSearch) -> tuple[Finalist, ...]:
        """Return the finalists that were tried; empty if there is nothing to choose.

        An interrupt (Ctrl-C) ends it, and the fastest goes to the gate.
        """
        from solkit.tuner.evolution.practising import finalists, practise_finalists

        rivals = finalists(breeding.archive, breeding.first_ms)
        if len(rivals) < 2:
            return ()
        first = breeding.archive[breeding.archive.original]
        original = replace(first, params=self.evaluator.original.params, time_ms=breeding.first_ms)
        breeding.tell("practice")
        try:
            shapes = self._accepted_shapes()
            self.evaluator.clear_ahead()
            alone = {r.variant.id for r in rivals if self.evaluator.fits_one_shape(r.variant)}
            everywhere = itertools.product(shapes, (original, rivals[0]))
            once = itertools.product(shapes[:1], rivals[1:])
            self.evaluator.foresee([self._point_at(bred, at) for at, bred in (*everywhere, *once)])
            practised = (
                practise_finalists(original, rivals, shapes, self._measure_if_possible, alone)
                if shapes
                else ()
            )
        except KeyboardInterrupt:
            self.notes.append("The practice was interrupted: the fastest variant went to the gate.")
            return ()
        except SolkitError as error:
            self.notes.append(f"The practice could not be finished: {error}")
            return ()
        practised = self._take_far_faster(breeding, (original, *rivals), practised, shapes)
        self._note_choice(breeding, practised)
        return practised

    def _take_far_faster(
        self,
        breeding: EvolutionSearch,
        practising: Sequence[Bred],
        practised: tuple[Finalist, ...],
        shapes: Sequence[Shape],
    ) -> tuple[Finalist, ...]:
        """Return the finalists with a far faster one taken that may leave shapes to the original.

        What fails here takes nothing from the one that holds. The original is the first of
        `practising`.
        """
        from solkit.tuner.evolution.practising import take_far_faster

        original, *rivals = practising
        may_leave = partial(self._may_leave, breeding)
        sound = [shape for shape in shapes if canonical(shape) not in self._lost]
        try:
            return take_far_faster(
                original, rivals, practised, sound, self._measure_once, may_leave
            )
        except KeyboardInterrupt:
            self.notes.append(
                "The practice was interrupted: the finalist that loses least was taken."
            )
        except SolkitError as error:
            self.notes.append(f"The practice could not be finished: {error}")
        return practised

    def give_way(
        self, breeding: EvolutionSearch, practised: tuple[Finalist, ...]
    ) -> tuple[Finalist, ...]:
        """Return the finalists of a winner that cannot leave to the original what it loses.

        The one that loses least is taken: the winner was only for the shapes that it would leave.
        """
        from solkit.tuner.evolution.practising import take_least_loss

        least = take_least_loss(practised)
        if least != practised:
            lost, taken = (_kind_taken(breeding, some) for some in (practised, least))
            self.notes.append(
                f"{lost} could not leave the sizes at which it is slower: {taken} was taken."
            )
        return least

    def _may_leave(self, breeding: EvolutionSearch, finalist: Finalist) -> bool:
        """Tell whether a finalist's file can leave the shapes at which it was slower."""
        bred = breeding.archive[finalist.id]
        bounds = self._bounds(bred, [finalist])
        slower = [trial.shape for trial in finalist.practised if _is_slower_at(trial)]
        if not self._are_outside(slower, bounds) or (joined := self._joined(bred, bounds)) is None:
            return False
        return self.evaluator.holds(self._configuration_of(joined, finalist.params))

    def _configuration_of(self, joined: Variant, params: Mapping[str, Value]) -> Configuration:
        return self.evaluator.original.of(self.evaluator.path(joined), params, "search")

    def _are_outside(self, shapes: Sequence[Shape], bounds: Sequence[SizeBound]) -> bool:
        """Tell whether some bound leaves each of the shapes to the original."""
        sizes = [self._tensor_sizes(shape) for shape in shapes]
        return not any(all(bound.holds(at) for bound in bounds) for at in sizes)

    def leave_small_inputs(
        self, breeding: EvolutionSearch, best: Bred, finalists: Sequence[Finalist]
    ) -> Bred:
        """Return the winner with the original's launches for inputs that it was not tried on.

        These are smaller than any at which it was measured and not slower. Blocks that fill a GPU
        leave most of it idle at a much smaller shape. The winner itself is returned where no other
        shape counts, where its file cannot be joined with the original's, or where that is slower.
        """
        if best.time_ms is None or not self.evaluator.original.others(self.evaluator.how):
            return best
        joined = self._joined(best, self._bounds(best, finalists))
        return best if joined is None else self._take_over(breeding, best, joined)

    def leave_slower_shapes(
        self,
        breeding: EvolutionSearch,
        best: Bred,
        finalists: Sequence[Finalist],
        slower: Sequence[Shape],
    ) -> Bred | None:
        """Return the winner with the original's launches also where it was slower at the gate.

        ``None`` where no size tells such a shape from those at which the winner holds, or where
        the original's launches ran there already.
        """
        own = breeding.archive[self.winner_of(best)]
        if not self._are_outside(slower, self._bounds(own, finalists, slower)):
            return None
        joined = self.join_unmeasured(breeding, own, finalists, slower)
        if joined is None:
            return None
        return breeding.archive.note(joined.variant.id, time_ms=best.time_ms, gap=best.gap)

    def leaves_to_original(self, best: Bred, shape: Shape) -> bool:
        """Tell whether a winner's file says that the original's launches run at a shape."""
        if not self.evaluator.fits_one_shape(best.variant):
            return self._are_outside([shape], self._guards.get(best.variant.id, ()))
        original = self.evaluator.original
        both = [replace(original.configuration, shape=at) for at in (shape, original.shape)]
        there, here = map(self.evaluator.inputs_of, both)
        return bool(there) and there != here

    def winner_of(self, best: Bred) -> str:
        """Return the id of the variant that a file leaves sizes of to the original, or its own."""
        return best.variant.parent or "" if best.variant.kind == SIZE_GUARD else best.variant.id

    def join_unmeasured(
        self,
        breeding: EvolutionSearch,
        own: Bred,
        finalists: Sequence[Finalist],
        slower: Sequence[Shape] = (),
    ) -> Bred | None:
        """Return a variant's file joined with the original's, which only the gate measures.

        ``None`` if they cannot be joined, or were before.
        """
        joined = self._joined(own, self._bounds(own, finalists, slower))
        if joined is None or joined.id in breeding.archive:
            return None
        configuration = self.evaluator.original.configuration
        if not self.evaluator.holds(replace(configuration, path=self.evaluator.path(joined))):
            return None
        return self._add_unmeasured(breeding, own, joined)

    def _add_unmeasured(self, breeding: EvolutionSearch, own: Bred, joined: Variant) -> Bred:
        """Add a joined file, which takes as long as the variant whose launches it makes."""
        breeding.archive.add(joined)
        self.notes.append(joined.intent)
        return breeding.archive.note(
            joined.id,
            verdict=own.verdict,
            params=own.params,
            time_ms=own.time_ms,
            gap=own.gap,
            behaviour=own.behaviour,
        )

    def _bounds(
        self, best: Bred, finalists: Sequence[Finalist], slower: Sequence[Shape] = ()
    ) -> tuple[SizeBound, ...]:
        """Return sizes for which a winner's launches run; empty if no tensor's is known."""
        from solkit.tuner.proposers.rewriter.size_guard import bounds_of

        trials = [trial for f in finalists if f.id == best.variant.id for trial in f.practised]
        tried = [(trial.shape, _is_slower_at(trial)) for trial in trials]
        tried += [(shape, True) for shape in slower]
        here = self._tensor_sizes(self.evaluator.original.shape)
        return bounds_of(here, [(self._tensor_sizes(at), is_slow) for at, is_slow in tried])

    def _joined(self, best: Bred, bounds: Sequence[SizeBound]) -> Variant | None:
        """Return a winner's file joined with the original's; ``None`` with a note if it cannot."""
        from solkit.tuner.proposers.rewriter.size_guard import with_original_outside

        base, own = self.evaluator.original, best.variant
        if self.evaluator.fits_one_shape(own):
            return None  # all other sizes are the original's already
        try:
            source = with_original_outside(own.source, base.variant.source, base.params, bounds)
        except InputError as error:
            self._note_once(f"{_NOT_LEFT}: {error}.")
            return None
        outside = " or ".join(bound.condition for bound in bounds)
        self._guards[name := variant_id(source)] = bounds
        return replace(
            own,
            id=name,
            source=source,
            parent=own.id,
            kind=SIZE_GUARD,
            intent=f"The original's launches run where {outside}.",
        )

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _tensor_sizes(self, shape: Mapping[str, Value]) -> dict[str, int]:
        """Return sizes of the tensors that the original gets at a shape."""
        from solkit.tuner.proposers.rewriter.size_guard import tensor_sizes

        original = self.evaluator.original
        configuration = replace(original.configuration, shape=shape)
        at, inputs = (
            self.evaluator.prospect_of(configuration),
            self.evaluator.inputs_of(configuration),
        )
        kernels = () if at is None else at.result.analysis.own
        return tensor_sizes(original.variant.source, kernels, inputs)

    def _take_over(self, breeding: EvolutionSearch, best: Bred, joined: Variant) -> Bred:
        """Return a file in the winner's place if it is right and as fast.

        Nothing is measured if it is seen to launch what the winner does: the gate judges it whole.
        """
        configuration = self._configuration_of(joined, best.params)
        if best.time_ms is None or not self.evaluator.holds(configuration):
            return best
        if self.evaluator.are_same(
            self._configuration_of(best.variant, best.params), configuration
        ):
            return self._add_unmeasured(breeding, best, joined)
        same = Bred(joined, params=best.params)
        for _ in range(2):  # what disturbs only adds time
            outcome = self._time_at_shape(same, configuration.shape)
            if outcome.time_ms is None or outcome.time_ms <= _AS_FAST * best.time_ms:
                break
        if outcome.time_ms is None or outcome.time_ms > _AS_FAST * best.time_ms:
            why = outcome.why or "it is slower than without"
            self.notes.append(f"{_NOT_LEFT}: {why}")
            return best
        breeding.archive.add(joined)
        gap = None if best.gap is None else best.gap * outcome.time_ms / best.time_ms
        breeding.archive.note(
            joined.id,
            verdict=outcome.verdict,
            params=best.params,
            time_ms=outcome.time_ms,
            gap=gap,
            behaviour=best.behaviour,
            measured=1,
        )
        self.notes.append(joined.intent)
        return breeding.archive[joined.id]

    def _measure_once(self, bred: Bred, shape: Mapping[str, Value], turn: int) -> VariantOutcome:
        """Return a variant's time at a shape in a turn; nothing is measured beyond the budget."""
        from solkit.tuner.evolution.variant_evaluator import VariantOutcome

        key = bred.variant.id, canonical(bred.params), canonical(shape)
        timings = self._known.setdefault(key, [])
        if turn < len(timings):
            return timings[turn]
        if self.evaluator.spent_s() >= self.budget_s:
            return VariantOutcome(Verdict.NOT_MEASURED)
        timings.append(self._time_at_shape(bred, shape))
        return timings[-1]

    def _measure_if_possible(
        self, bred: Bred, shape: Mapping[str, Value], turn: int
    ) -> VariantOutcome:
        """Return a variant's time; a shape at which the processes fail says nothing of any."""
        from solkit.tuner.evolution.variant_evaluator import VariantOutcome

        if canonical(shape) not in self._lost:
            try:
                return self._measure_once(bred, shape, turn)
            except SolkitError as error:
                self._lost.add(canonical(shape))
                at = settings_text(shape)
                why = str(error).partition("\n")[0]
                self.notes.append(f"Nothing was practised at {at}: {why}")
        return VariantOutcome(Verdict.NOT_MEASURED)

    def _time_at_shape(self, bred: Bred, shape: Mapping[str, Value]) -> VariantOutcome:
        return self.evaluator.measure(self._point_at(bred, shape), bred.variant)

    def _point_at(self, bred: Bred, shape: Mapping[str, Value]) -> Point:
        from solkit.tuner.evolution.acquisition import Point

        original, path = self.evaluator.original, self.evaluator.path(bred.variant)
        in_use = path == original.path and canonical(bred.params) == canonical(original.params)
        how = "default" if in_use else "search"
        configuration = replace(original.of(path, bred.params, how), shape=shape)
        return Point(bred.variant.id, configuration, 0.0, 0.0)

    def _note_choice(self, breeding: EvolutionSearch, practised: tuple[Finalist, ...]) -> None:
        """Say so if another than the fastest was taken."""
        if not practised or practised[0].taken:
            return
        kind = _kind_taken(breeding, practised)
        lost = practised[0].practised[-1]
        at = settings_text(lost.shape)
        outcome = (
            lost.verdict.value if lost.ratio is None else f"{lost.ratio:.2f} times the original"
        )
        self.notes.append(
            f"The fastest variant did not hold in practice ({outcome} at {at}): {kind} was taken."
        )


def _kind_taken(breeding: EvolutionSearch, finalists: Sequence[Finalist]) -> str:
    (taken,) = (finalist for finalist in finalists if finalist.taken)
    return breeding.archive[taken.id].variant.kind


def _is_slower_at(trial: Practised) -> bool:
    from solkit.tuner.evolution.practising import is_slower

    return is_slower(trial.loss)
