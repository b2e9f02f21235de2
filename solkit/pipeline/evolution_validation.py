"""The practice of a search over variants: which of them goes to the gate."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from solkit.core import Bred, Finalist, Outcome, Value, Verdict, canonical
from solkit.errors import SolkitError
from solkit.pipeline.kernel_evaluator import EvolveWorld

if TYPE_CHECKING:
    from solkit.tuner.evolution.evolution_search import EvolutionSearch, Found

__all__ = ["Practice"]

_KEPT_SHARE, _KEPT_S = 0.2, 15.0  # of the budget, and at most: some ten measurements


@dataclass
class Practice:
    """Times finalists at practice shapes, within the budget of the search.

    Attributes:
        world: measures.
        budget_s: GPU seconds of the search and the practice.
        notes: what limits the result, each a sentence.
    """

    world: EvolveWorld
    budget_s: float
    notes: list[str] = field(default_factory=list)
    _known: dict[tuple[str, str, str], list[Found]] = field(default_factory=dict)

    def shapes(self) -> list[Mapping[str, Value]]:
        """Return shapes to practise at, but for those that a recording lacks."""
        original = self.world.original
        every = original.practice(self.world.how)
        return [e for e in every if self.world.holds(replace(original.configuration, shape=e))]

    def kept_s(self) -> float:
        """GPU seconds that the search leaves."""
        return min(_KEPT_SHARE * self.budget_s, _KEPT_S) if self.shapes() else 0.0

    def take(self, name: str, outcome: Outcome) -> None:
        """Take over what an earlier run measured of a variant."""
        if outcome.verdict is not Verdict.UNSTABLE:  # it was measured again
            key = name, canonical(outcome.params), canonical(outcome.shape)
            self._known.setdefault(key, []).append(self.world.judged(None, outcome))

    def run(self, breeding: EvolutionSearch) -> tuple[Finalist, ...]:
        """Return the finalists that were tried; empty if there is nothing to choose.

        An interrupt (Ctrl-C) ends it, and the fastest goes to the gate.
        """
        from solkit.tuner.evolution.validation import MOST_SHAPES, finalists, practise

        rivals = finalists(breeding.archive, breeding.first_ms)
        if len(rivals) < 2:
            return ()
        first = breeding.archive[breeding.archive.original]
        original = replace(first, params=self.world.original.params, time_ms=breeding.first_ms)
        breeding.tell("practice")
        try:
            shapes = list(itertools.islice(filter(self.world.accepts, self.shapes()), MOST_SHAPES))
            practised = practise(original, rivals, shapes, self._measured) if shapes else ()
        except KeyboardInterrupt:
            self.notes.append("The practice was interrupted: the fastest variant went to the gate.")
            return ()
        except SolkitError as error:
            self.notes.append(f"The practice could not be finished: {error}")
            return ()
        self._note(breeding, practised)
        return practised

    def _measured(self, bred: Bred, shape: Mapping[str, Value], turn: int) -> Found:
        """Return a variant's time at a shape in a turn; nothing is measured beyond the budget."""
        from solkit.tuner.evolution.evolution_search import Found

        key = bred.variant.id, canonical(bred.params), canonical(shape)
        timings = self._known.setdefault(key, [])
        if turn < len(timings):
            return timings[turn]
        if self.world.spent_s() >= self.budget_s:
            return Found(Verdict.NOT_MEASURED)
        timings.append(self._timed(bred, shape))
        return timings[-1]

    def _timed(self, bred: Bred, shape: Mapping[str, Value]) -> Found:
        from solkit.tuner.evolution.acquisition import Point

        original, path = self.world.original, self.world.path(bred.variant)
        in_use = path == original.path and canonical(bred.params) == canonical(original.params)
        how = "default" if in_use else "search"
        configuration = replace(original.of(path, bred.params, how), shape=shape)
        return self.world.measure(Point(bred.variant.id, configuration, 0.0, 0.0), bred.variant)

    def _note(self, breeding: EvolutionSearch, practised: tuple[Finalist, ...]) -> None:
        """Say so if another than the fastest was taken."""
        if not practised or practised[0].taken:
            return
        taken = next(finalist for finalist in practised if finalist.taken)
        kind = breeding.archive[taken.id].variant.kind
        lost = practised[0].practised[-1]
        at = ", ".join(f"{name}={value}" for name, value in lost.shape.items())
        outcome = (
            lost.verdict.value if lost.ratio is None else f"{lost.ratio:.2f} times the original"
        )
        self.notes.append(
            f"The fastest variant did not hold in practice ({outcome} at {at}): {kind} was taken."
        )
