"""Early stopping of a search: where measuring more is not worth it, however much budget is left.

A search ends at the speed of light, where nothing is left to measure, where nothing runs, or once
several outcomes in a row leave too little to expect. The last rule waits for a least number of
measurements, since a young model expects too little as often as too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solkit.core.tuning import Stopped

__all__ = ["EarlyStopping", "TaskSettings"]


@dataclass(frozen=True)
class TaskSettings:
    """Limits at which a task ends.

    Attributes:
        stop_at: the share of the speed of light that is enough, 0 to 1; above 1 it never is.
        least_gain: the expected saving of the next measurement, as a share of the best time, under
            which going on is not worth it.
        patience: configurations that are measured before `least_gain` counts.
        calm: outcomes in a row after which the expected saving was so small.
        seed: of the search.
    """

    stop_at: float = 0.95
    least_gain: float = 1e-4
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
        self._calm = 0  # outcomes in a row after which the expected saving was too small

    def note_outcome(self, measured: int, expected_gain: Callable[[], float]) -> None:
        """Take up an outcome.

        Args:
            measured: configurations that have one.
            expected_gain: of the next measurement, as a share of the best time; NaN if unknown. It
                takes time, so it is asked for only where it counts.
        """
        patient = measured >= self._settings.patience
        self._calm = (
            self._calm + 1 if patient and expected_gain() < self._settings.least_gain else 0
        )

    def stop_reason(
        self, gap: float | None, is_exhausted: bool, nothing_runs: bool
    ) -> Stopped | None:
        """Return the reason to stop, the strongest first; ``None`` to go on.

        Args:
            gap: the best time over the speed of light; ``None`` if either is unknown.
            is_exhausted: whether nothing is left to measure.
            nothing_runs: whether enough configurations failed, and none ran.
        """
        if gap is not None and gap * self._settings.stop_at <= 1:
            return Stopped.SPEED_OF_LIGHT
        if is_exhausted:
            return Stopped.EXHAUSTED
        if nothing_runs:
            return Stopped.NOTHING_RUNS
        return Stopped.EXPECTED_GAIN if self._calm >= self._settings.calm else None
