"""Interface of what ranks, checks and measures the variants of a search, with its answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from solkit.core import Bred, Brief, Result, Tried, Variant, Verdict
from solkit.tuner.evolution.acquisition import Point

T = TypeVar("T")


@dataclass(frozen=True)
class VariantOutcome:
    """Outcome of measuring a candidate.

    Attributes:
        verdict: of the bench.
        time_ms: ``None`` if it failed, or its time does not count.
        behaviour: as `solkit.tuner.evolution.population_archive.behaviour_of` tells.
        result: its bound, its analysis, and its gap taken apart; ``None`` if it is unusable.
        why: why it failed, a sentence.
    """

    verdict: Verdict
    time_ms: float | None = None
    behaviour: tuple[str, ...] = ()
    result: Result | None = None
    why: str = ""


@dataclass(frozen=True)
class Ranking:
    """Forecasts of some variants.

    Attributes:
        points: candidates that may be measured.
        refused: why a variant cannot be measured, by its id.
    """

    points: Sequence[Point]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Knowledge of a candidate that was analysed and compiled ahead.

    Attributes:
        point: the candidate, with the forecast that compiling it led to.
        low_ms: the least time by that forecast; ``None`` if there is none.
        refused: why it cannot be measured, a sentence; empty if it can.
        is_telling: whether other parameters of its variant may fail alike.
        is_endless: whether that is because compiling it takes too long.
    """

    point: Point
    low_ms: float | None = None
    refused: str = ""
    is_telling: bool = False
    is_endless: bool = False


class VariantEvaluator(Protocol):
    """Interface of an evaluator, which ranks and measures variants."""

    def rank(self, variants: Sequence[Variant], otherwise_ms: float) -> Ranking:
        """Return what is expected of variants; `otherwise_ms` where nothing is known."""

    def measure(self, point: Point, variant: Variant) -> VariantOutcome:
        """Check a candidate and time it."""

    @property
    def overlaps(self) -> bool:
        """True if `begin` returns before the work is done."""

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Do work that needs no GPU while candidates are measured, some of it at a time."""

    def foresee(self, points: Sequence[Point]) -> None:
        """Study candidates that may be measured soon, the most promising first: as many as it can.

        Those that were studied, or are being, are not studied again.
        """

    def studied(self) -> Sequence[Study]:
        """Return what was found out of candidates since the last call."""

    def is_late(self, point: Point) -> bool:
        """Tell whether studying a candidate takes much longer than usual."""

    def is_ready(self, point: Point) -> bool:
        """Tell whether a candidate is studied and its variant is checked, as far as it will be."""

    def await_any(self, others: Sequence[Future[Any]], timeout_s: float | None) -> bool:
        """Wait until a study, a check or one of `others` ends; false if there is none."""

    def idle_s(self) -> float:
        """Return the seconds since the last measurement; 0 in a replay, where nothing waits."""

    def expect_parent(self, brief: Brief) -> None:
        """Expect variants of a brief's kernel, by which they will be judged, to be checked soon."""

    def expect(self, variants: Sequence[tuple[Variant, Brief]]) -> None:
        """Expect variants to be checked soon, the most promising first, with their briefs."""

    def check(self, variant: Variant, brief: Brief) -> Variant:
        """Return the variant with what can be found out of its results without a GPU.

        It stays unchecked if that takes long: see `checked_late`.

        Args:
            variant: unchecked so far.
            brief: its proposer's.
        """

    def checked_late(self) -> Sequence[Variant]:
        """Return the variants whose checks took long and have ended since the last call."""

    def await_checks(self, variants: Collection[str]) -> None:
        """Wait a while for the checks of variants that took long."""

    def brief(self, bred: Bred, result: Result | None, tried: Sequence[Tried]) -> Brief:
        """Return what a proposer is told of a variant."""

    def spent_s(self) -> float:
        """Return GPU seconds that were spent."""
