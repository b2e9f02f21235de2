"""Costs of a candidate before its time is known: seconds to compile it, seconds to measure it.

Small trees over the surrogate's features, with log2(seconds) as the target. Seconds are those of
the machines that the rows come from; they tell more about each other than about another machine.
Repeats of one compilation differ by 1.3 times in the median, since others compiled beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from solkit.core import Depth
from solkit.surrogate.conformal_intervals import group_folds
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import BoostedTrees, Settings, columns_of, grow_ensemble

if TYPE_CHECKING:
    import polars

    from solkit.datasets.store import Store

SETTINGS = Settings(members=1, rounds=80, leaves=24, focus=0.0)
FIELDS = ("compile_s", "gpu_s")

_LEAST_ROWS = 200
_LEAST_FAMILIES = 5
_KEY = ("kernel_id", "problem_id", "params", "device")


@dataclass(frozen=True)
class Costs:
    """Costs of candidates, in seconds; NaN if unknown.

    Attributes:
        compile_s: to compile, (rows,).
        gpu_s: for which a GPU is held to check and time it, (rows,).
    """

    compile_s: Array
    gpu_s: Array

    def __getitem__(self, rows: Array) -> Costs:
        """Select the costs of some rows."""
        return Costs(self.compile_s[rows], self.gpu_s[rows])


@dataclass(frozen=True)
class CostTrees:
    """Trees that forecast one of the costs.

    Attributes:
        names: of the features, in the order of the columns.
        grown: the trees, of log2(seconds).
        typical_s: the median of what was spent.
    """

    names: tuple[str, ...]
    grown: BoostedTrees
    typical_s: float

    def seconds(self, table: Table) -> Array:
        """Return seconds, (rows,)."""
        return np.asarray(2.0 ** self.grown.predict(columns_of(table, self.names)))


@dataclass(frozen=True)
class CostModel:
    """Forecasts `Costs`.

    Attributes:
        parts: by field of `Costs`; one is missing where too few rows tell of it.
    """

    parts: Mapping[str, CostTrees]

    @staticmethod
    def fit(table: Table, spent: Costs, fields: Sequence[str] = FIELDS, seed: int = 0) -> CostModel:
        """Learn from what rows of a table cost.

        Args:
            table: of the rows.
            spent: what they cost; NaN where unknown.
            fields: which of `FIELDS` to learn.
            seed: of the trees.
        """
        parts = {}
        for what in fields:
            seconds = getattr(spent, what)
            rows = np.flatnonzero(~np.isnan(seconds))
            families = np.unique(table.about["family"][rows])
            if len(rows) >= _LEAST_ROWS and len(families) >= _LEAST_FAMILIES:
                one = np.ones(len(rows))  # seconds stand in place of times, relative to one
                about = replace(table[rows], time_ms=seconds[rows], modelled_ms=one, sol_ms=one)
                names, (grown,) = grow_ensemble(about, SETTINGS, seed)
                parts[what] = CostTrees(names, grown, float(np.median(seconds[rows])))
        return CostModel(parts)

    def costs(self, table: Table) -> Costs:
        """Forecast what the rows of a table will cost."""
        nothing = np.full(len(table), np.nan)
        forecasts = {what: part.seconds(table) for what, part in self.parts.items()}
        return Costs(**(dict.fromkeys(FIELDS, nothing) | forecasts))


def cost_fields_at(depth: Depth) -> tuple[str, ...]:
    """Return what is worth forecasting at a depth: what is compiled has cost its seconds."""
    return ("gpu_s",) if depth is Depth.COMPILED else FIELDS


def evaluate_costs(
    table: Table, spent: Costs, fields: Sequence[str], seed: int = 0
) -> dict[str, dict[str, float]]:
    """Judge forecasts of costs of families left out, next to a constant, for a model card.

    Returns:
        By field of `Costs`: ``rows``, ``spearman``, ``error_median`` and ``error_of_a_constant``,
        the last two as medians of exp |ln(forecast / true)| - 1.
    """
    from solkit.surrogate.evaluation.regret_metrics import median_time_error, spearman

    folds = group_folds(table.about["family"])
    by_field = {}
    for what in fields:
        true = getattr(spent, what)
        forecast, constant = np.full((2, len(table)), np.nan)
        for fold in np.unique(folds):
            train, asked_rows = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            model = CostModel.fit(table[train], spent[train], (what,), seed=seed)
            if what in model.parts:
                forecast[asked_rows] = getattr(model.costs(table[asked_rows]), what)
                constant[asked_rows] = model.parts[what].typical_s
        rows = np.flatnonzero(~np.isnan(forecast) & ~np.isnan(true))
        if len(rows):
            by_field[what] = {
                "rows": len(rows),
                "spearman": round(spearman(forecast[rows], true[rows]), 3),
                "error_median": round(median_time_error(forecast[rows], true[rows]), 3),
                "error_of_a_constant": round(median_time_error(constant[rows], true[rows]), 3),
            }
    return by_field


def costs_of_rows(stores: Sequence[Store], table: Table) -> Costs:
    """Return what the rows of a table cost, as medians over their repeats; NaN where no row tells.

    A compilation that a cache answered took no seconds and tells nothing.
    """
    spent: dict[tuple[str, ...], tuple[float | None, float | None]] = {}
    for store in stores:
        for *key, compile_s, gpu_s in _median_costs(store).iter_rows():
            spent[tuple(key)] = compile_s, gpu_s
    keys = zip(*(table.about[name].astype(str) for name in _KEY), strict=True)
    rows = [spent.get(tuple(map(str, key)), (None, None)) for key in keys]
    seconds = np.array(rows, float).reshape(len(rows), 2)
    return Costs(seconds[:, 0], seconds[:, 1])


def _median_costs(store: Store) -> polars.DataFrame:
    import polars as pl

    from solkit.datasets.store import RIGHT

    rows = store.scan().filter(pl.col("verdict").is_in(RIGHT))
    seconds = [pl.col(name).filter(pl.col(name) > 0).median().alias(name) for name in FIELDS]
    return rows.group_by(_KEY).agg(seconds).select(*_KEY, *FIELDS).collect()
