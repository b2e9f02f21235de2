"""Knowledge of a forecaster of what it does not know: coverage of intervals, and abstention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solkit.surrogate.evaluation.regret_metrics import median_time_error
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import Forecasts

_LEAST_ROWS = 20
"""A family with fewer rows says little about coverage."""


@dataclass(frozen=True)
class Coverage:
    """Shares of rows in their 90 % interval; NaN without intervals.

    Attributes:
        share: of all rows.
        p10: the tenth percentile over families of at least 20 rows.
        worst: the lowest of these families.
        families: how many such families there are.
    """

    share: float
    p10: float
    worst: float
    families: int


@dataclass(frozen=True)
class Abstention:
    """Abstention of a forecaster.

    Attributes:
        share: of all rows.
        error_ratio: time error there over that elsewhere; NaN if it never or always abstains.
    """

    share: float
    error_ratio: float


def measure_coverage(table: Table, forecasts: Forecasts) -> Coverage:
    """Measure the coverage of forecasts of rows of a table."""
    if np.isnan(forecasts.low_ms).all():
        return Coverage(np.nan, np.nan, np.nan, 0)
    shares = np.array([share for share, _ in coverage_by_family(table, forecasts).values()])
    low = (float(np.quantile(shares, 0.1)), float(shares.min())) if len(shares) else (np.nan,) * 2
    return Coverage(float(_is_inside_interval(table, forecasts).mean()), *low, len(shares))


def coverage_by_family(table: Table, forecasts: Forecasts) -> dict[str, tuple[float, int]]:
    """Return the share of rows in the interval, and rows, of each family that has enough rows."""
    families, place = np.unique(table.about["family"].astype(str), return_inverse=True)
    rows = np.bincount(place, minlength=len(families))
    inside = np.bincount(place, _is_inside_interval(table, forecasts), minlength=len(families))
    return {
        str(family): (float(inside[at] / rows[at]), int(rows[at]))
        for at, family in enumerate(families)
        if rows[at] >= _LEAST_ROWS
    }


def measure_abstention(table: Table, forecasts: Forecasts) -> Abstention:
    """Measure the abstention of forecasts of rows of a table."""
    abstains = forecasts.abstains.astype(bool)
    if not abstains.any() or abstains.all():
        return Abstention(float(abstains.mean()) if len(abstains) else 0.0, np.nan)
    there, elsewhere = (
        median_time_error(forecasts.time_ms[rows], table.time_ms[rows])
        for rows in (abstains, ~abstains)
    )
    return Abstention(float(abstains.mean()), there / elsewhere if elsewhere else np.nan)


def _is_inside_interval(table: Table, forecasts: Forecasts) -> Array:
    return np.asarray(
        (forecasts.low_ms <= table.time_ms) & (table.time_ms <= forecasts.high_ms), float
    )
