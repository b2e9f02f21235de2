"""Beliefs of a plan of `solkit.rank`, as a prior of a search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solkit.core import Params, canonical
from solkit.surrogate.features import Array
from solkit.surrogate.plan import Forecast, Plan

__all__ = ["Planned"]

_NINETY = 2 * 1.645  # standard deviations in a 90 % interval
_UNSURE = 1.0  # in log2: where a forecast has no interval, or is the kernel model's


class Planned:
    """The forecasts of a plan; nothing is known of other points.

    Args:
        plan: for one shape.

    Attributes:
        plan: as given.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._of = {canonical(e.configuration.params): e.forecast for e in plan.ranked}

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and sd of log2(time / ms), each (points,); nan where unknown."""
        pairs = [_log2(self._of.get(canonical(point))) for point in points]
        mean, sd = np.array(pairs, float).reshape(-1, 2).T
        return mean, sd

    def fails(self, points: Sequence[Params]) -> Array:
        """Return the chance that each fails, (points,); 0 where unknown."""
        forecasts = [self._of.get(canonical(point)) for point in points]
        return np.array([0.0 if forecast is None else forecast.p_fail for forecast in forecasts])


def _log2(forecast: Forecast | None) -> tuple[float, float]:
    if forecast is None or forecast.time_ms is None:
        return np.nan, np.nan
    mean = float(np.log2(forecast.time_ms))
    if forecast.abstains or forecast.low_ms is None or forecast.high_ms is None:
        return mean, _UNSURE
    return mean, float(np.log2(forecast.high_ms / forecast.low_ms)) / _NINETY
