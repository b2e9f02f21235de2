"""Figures of public timings: how well bounds, the kernel model and the surrogate tell them.

::

    gap       time / roofline
    error     median of exp |ln(forecast / time)| - 1
    ratio     exp of the median of ln(forecast / time): below 1, it forecasts too little
    Spearman  over all rows of a group, whatever they compute
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solkit.core import Depth
from solkit.pipeline.rebuilding import Rebuilt
from solkit.surrogate.compiled_features import modelled_ms
from solkit.surrogate.evaluation.regret_metrics import median_time_error, spearman
from solkit.surrogate.model import Surrogate
from solkit.surrogate.table import Table, table_of_entries
from solkit.surrogate.trees import Forecasts

_FEW = 8
"""Rows of a group under which a rank correlation says nothing."""


@dataclass(frozen=True)
class ForecastFigures:
    """Figures of forecasts of reported times.

    Attributes:
        rows: with a forecast and a time.
        error_median: a fraction; NaN without rows.
        ratio_median: forecast / time.
        spearman: of forecasts and times; NaN for few rows.
        coverage_90: share of rows in their 90 % interval; NaN without intervals.
    """

    rows: int
    error_median: float = math.nan
    ratio_median: float = math.nan
    spearman: float = math.nan
    coverage_90: float = math.nan


@dataclass(frozen=True)
class PublicFigures:
    """Figures of the reported times of a GPU, or of one operation on it.

    Attributes:
        device: a key of the catalogue, or the row's own name of a GPU that it lacks.
        family: the operation; empty for all.
        rows: with a time.
        bounded: with a roofline.
        gap_median, gap_p10: time over roofline.
        model: of the kernel model, on rows whose kernels were rebuilt.
        surrogate: likewise, on rows that launch kernels of their own.
    """

    device: str
    family: str
    rows: int
    bounded: int
    gap_median: float
    gap_p10: float
    model: ForecastFigures
    surrogate: ForecastFigures


@dataclass(frozen=True)
class _Report:
    """A reported time, and what is said of it; NaN where nothing is."""

    device: str
    family: str
    time_ms: float
    sol_ms: float
    modelled_ms: float
    forecast_ms: float = math.nan
    low_ms: float = math.nan
    high_ms: float = math.nan


def forecast_own(
    rows: Sequence[Rebuilt], depth: Depth, surrogate: Surrogate
) -> tuple[Table | None, Forecasts, list[int]]:
    """Forecast the rows that launch kernels of their own.

    Returns:
        Their table (``None`` without any), their forecasts, and their places in `rows`.
    """
    groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if row.entry is not None and row.is_own:
            problem_id = row.entry.text_of("problem_id")
            key = problem_id, row.entry.device.key, row.entry.problem.sol_ms
            groups[key].append(place)  # as a table is ordered
    places = [place for members in groups.values() for place in members]
    entries = [entry for place in places if (entry := rows[place].entry) is not None]
    if not entries:
        return None, Forecasts.from_times(np.empty(0)), []
    table = table_of_entries(entries)
    return table, surrogate.forecast(table, depth), places


def public_figures(
    rows: Sequence[Rebuilt], forecasts: Forecasts, places: Sequence[int]
) -> list[PublicFigures]:
    """Return the figures of each GPU, and of each operation on it.

    Args:
        rows: reported times.
        forecasts: of some of them.
        places: the rows that these are of.
    """
    reports = [_report_of_row(row) for row in rows]
    for number, place in enumerate(places):
        reports[place] = replace(
            reports[place],
            forecast_ms=float(forecasts.time_ms[number]),
            low_ms=float(forecasts.low_ms[number]),
            high_ms=float(forecasts.high_ms[number]),
        )
    groups: defaultdict[tuple[str, str], list[_Report]] = defaultdict(list)
    for row in reports:
        if not math.isnan(row.time_ms):
            groups[row.device, ""].append(row)
            groups[row.device, row.family].append(row)
    return [_figures_of_group(*key, groups[key]) for key in sorted(groups)]


def _report_of_row(row: Rebuilt) -> _Report:
    judgement, problem = row.judgement, row.judgement.problem
    modelled = None if row.entry is None else modelled_ms(row.entry.kernels)
    return _Report(
        judgement.row.device if problem is None else problem.device.key,
        judgement.row.family,
        math.nan if judgement.time_ms is None else judgement.time_ms,
        math.nan if problem is None else problem.bound.time_ms,
        math.nan if modelled is None else modelled,
    )


def _figures_of_group(device: str, family: str, rows: Sequence[_Report]) -> PublicFigures:
    gaps = [row.time_ms / row.sol_ms for row in rows if row.sol_ms > 0]
    low, median = np.quantile(gaps, [0.1, 0.5]) if gaps else (math.nan, math.nan)
    model = _forecast_figures([(row.modelled_ms, row.time_ms) for row in rows])
    surrogate = _forecast_figures([(row.forecast_ms, row.time_ms) for row in rows])
    bounds = [row for row in rows if not math.isnan(row.low_ms)]
    if bounds:
        inside = [row.low_ms <= row.time_ms <= row.high_ms for row in bounds]
        surrogate = replace(surrogate, coverage_90=float(np.mean(inside)))
    return PublicFigures(
        device, family, len(rows), len(gaps), float(median), float(low), model, surrogate
    )


def _forecast_figures(pairs: Sequence[tuple[float, float]]) -> ForecastFigures:
    """Return the figures of pairs of a forecast and a time; pairs without a forecast are left."""
    usable = np.array([pair for pair in pairs if pair[0] > 0], float).reshape(-1, 2)
    if not len(usable):
        return ForecastFigures(0)
    forecast_ms, time_ms = usable[:, 0], usable[:, 1]
    rank = spearman(forecast_ms, time_ms) if len(usable) >= _FEW else math.nan
    return ForecastFigures(
        len(usable),
        median_time_error(forecast_ms, time_ms),
        float(np.exp(np.median(np.log(forecast_ms / time_ms)))),
        rank,
    )
