"""Evaluate a forecaster on a split: figures on rows that it has not learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from solkit.surrogate.evaluation.forecasters import Forecaster, for_fold
from solkit.surrogate.evaluation.out_of_distribution import (
    Abstaining,
    Coverage,
    abstaining_of,
    coverage_of,
)
from solkit.surrogate.evaluation.pools import KINDS, pools_of
from solkit.surrogate.evaluation.regret_metrics import (
    Figures,
    Pairs,
    figures_of,
    pairs_of,
    time_error,
)
from solkit.surrogate.evaluation.splits import folds_of
from solkit.surrogate.table import Table
from solkit.surrogate.trees import Forecasts

__all__ = ["Evaluation", "evaluate", "judged", "left_out"]


@dataclass(frozen=True)
class Evaluation:
    """Figures of one forecaster on one split.

    Attributes:
        pools: figures by the kind of pool.
        time_error: median relative error, a fraction.
        coverage: how many rows are in their 90 % interval.
        abstaining: where the forecaster does not trust itself.
        pairs: how often of two kernels for a problem the faster one is told, by how far they are
            apart.
        rows: how many rows it was tested on.
    """

    pools: Mapping[str, Figures]
    time_error: float
    coverage: Coverage
    abstaining: Abstaining
    pairs: Mapping[str, Pairs]
    rows: int

    @property
    def coverage_90(self) -> float:
        """Share of rows in their 90 % interval; NaN without intervals."""
        return self.coverage.share


def evaluate(table: Table, split: str, forecaster: Forecaster, seed: int = 0) -> Evaluation:
    """Forecast each fold from the others, and compare.

    Args:
        table: configurations with their times.
        split: one of `SPLITS`.
        forecaster: learns and forecasts.
        seed: of the pools.

    Raises:
        InputError: there is no such split.
    """
    return judged(table, left_out(table, split, forecaster), seed)


def left_out(table: Table, split: str, forecaster: Forecaster) -> Forecasts:
    """Forecast each row when it is left out; NaN for rows of no fold."""
    forecasts = Forecasts.of(np.full(len(table), np.nan))
    for fold in folds_of(table, split):
        if len(fold.train) and len(fold.test):
            learns = for_fold(forecaster, fold)
            forecasts = forecasts.with_(fold.test, learns(table[fold.train], table[fold.test]))
    return forecasts


def judged(table: Table, forecasts: Forecasts, seed: int = 0) -> Evaluation:
    """Return figures of forecasts; rows whose forecast is NaN do not count."""
    rows = np.flatnonzero(~np.isnan(forecasts.time_ms))
    pools = {kind: list(pools_of(table, kind, rows, seed)) for kind in KINDS}
    return Evaluation(
        {
            kind: figures_of(table, pools_of_kind, forecasts.time_ms)
            for kind, pools_of_kind in pools.items()
        },
        time_error(forecasts.time_ms[rows], table.time_ms[rows]),
        coverage_of(table[rows], forecasts[rows]),
        abstaining_of(table[rows], forecasts[rows]),
        pairs_of(table, pools["problem"], forecasts.time_ms),
        len(rows),
    )
