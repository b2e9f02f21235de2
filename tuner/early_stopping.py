"""Early stopping of a search: where measuring more is not worth it, however much budget is left.

A search ends at the speed of light, where nothing is left to measure, where nothing runs, or once
several outcomes in a row leave too little to expect: the next measurement would save too little,
and a clearly faster configuration is unlikely among all that are left. The last rule waits for a
least number of measurements, since a young model expects too little as often as too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solkit.core.tuning import Stopped


@dataclass(frozen=True)
class TaskSettings:
    """Limits at which a task ends.

    Attributes:
        stop_at: the share of the speed of light that is enough, 0 to 1; above 1 it never is.
        least_gain: the expected saving of the next measurement, as a share of the best time, under
            which going on is not worth it.
        patience: configurations that are measured before `least_gain` counts.
        better_chance: the chance that something clearly faster is left, under which going on is
            not worth it.
        calm: outcomes in a row after which both were so small.
        seed: of the search.
    """

    stop_at: float = 0.95
    least_gain: float = 1e-4
    better_chance: float = 0.1
    patience: int = 16
    calm: int = 8
    seed: int = 0


class EarlyStopping:
    """Follows outcomes of one search, and says when it ends.

    Args:
        settings: limits.
    """

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings
        self._calm = 0  # outcomes in a row after which too little was to be expected

    def note_outcome(
        self, measured: int, expected_gain: Callable[[], float], better_chance: Callable[[], float]
    ) -> None:
        """Take up an outcome.

        Both functions take time, so they are called only where they count.

        Args:
            measured: configurations that have one.
            expected_gain: of the next measurement, as a share of the best time; NaN if unknown.
            better_chance: that something clearly faster is left; NaN if unknown.
        """
        is_calm = (
            measured >= self._settings.patience
            and expected_gain() < self._settings.least_gain
            and better_chance() < self._settings.better_chance
        )
        self._calm = self._calm + 1 if is_calm else 0

    def stop_reason(
        self, gap: float | None, is_exhausted: bool, nothing_runs: bool, fails_alike: bool
    ) -> Stopped | None:
        """Return the reason to stop, the strongest first; ``None`` to go on.

        Args:
            gap: the best time over the speed of light; ``None`` if either is unknown.
            is_exhausted: whether nothing is left to measure.
            nothing_runs: whether enough configurations could not be measured, and none ran.
            fails_alike: whether all fail for a reason that parameters do not change.
        """
        if gap is not None and gap * self._settings.stop_at <= 1:
            return Stopped.SPEED_OF_LIGHT
        if is_exhausted:
            return Stopped.EXHAUSTED
        if nothing_runs:
            return Stopped.NOTHING_RUNS
        if fails_alike:
            return Stopped.FAILS_ALIKE
        return Stopped.EXPECTED_GAIN if self._calm >= self._settings.calm else None
