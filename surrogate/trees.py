"""Gradient-boosted trees over the features: what the kernel model leaves unexplained.

The target is log2(time / modelled), or log2(time / SOL) where there is no modelled time. Rows near
their problem's best weigh more, since that is where a choice is made. An ensemble of models, each
with its own seed, gives a mean and a spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solkit.errors import UnsupportedError
from solkit.surrogate.features import Array, group_of
from solkit.surrogate.intervals import Interval, fit_interval, group_folds
from solkit.surrogate.table import Table

__all__ = ["DEFAULTS", "Forecasts", "Settings", "Trees", "target", "weights", "xgboost"]


@dataclass(frozen=True)
class Settings:
    """How trees are grown.

    Attributes:
        members: models in the ensemble.
        rounds: trees of each.
        depth: of a tree, at most.
        rate: learning rate.
        rows, columns: share that each tree sees.
        least_weight: hessian of a leaf, at least.
        focus: exponent of the weight of slow rows: (best / time) ** focus.
        threads: of XGBoost.
        leave_out: groups of features that are not used.
    """

    members: int = 5
    rounds: int = 500
    depth: int = 8
    rate: float = 0.05
    rows: float = 0.7
    columns: float = 0.4
    least_weight: float = 2.0
    focus: float = 0.5
    threads: int = 0
    leave_out: tuple[str, ...] = ()


DEFAULTS = Settings()


@dataclass(frozen=True)
class Forecasts:
    """What a model expects of some candidates.

    Attributes:
        time_ms: (rows,).
        low_ms, high_ms: 90 % interval, (rows,) each; NaN if the model has none.
    """

    time_ms: Array
    low_ms: Array
    high_ms: Array

    @staticmethod
    def of(time_ms: Array) -> Forecasts:
        """Times without intervals."""
        nothing = np.full(len(time_ms), np.nan)
        return Forecasts(np.asarray(time_ms, float), nothing, nothing)


@dataclass(frozen=True)
class Trees:
    """A fitted ensemble.

    Attributes:
        names: of the features, in the order of the columns.
        members: XGBoost's boosters.
        interval: around the members' mean.
    """

    names: tuple[str, ...]
    members: tuple[_Grown, ...]
    interval: Interval

    @staticmethod
    def fit(table: Table, settings: Settings = DEFAULTS, seed: int = 0) -> Trees:
        """Grow an ensemble on all rows of a table."""
        names = tuple(n for n in table.names if group_of(n) not in settings.leave_out)
        values, wanted = _columns(table, names), target(table)
        weight = weights(table, settings.focus)
        members = tuple(
            _grow(values, wanted, weight, settings, 1000 * seed + place)
            for place in range(settings.members)
        )
        folds = group_folds(table.about["family"])
        residuals = wanted - _left_out(values, wanted, weight, folds, settings, seed)
        sizes = replace(settings, rounds=100, depth=5, rate=0.1)

        def fit(known: Array, sized: Array) -> _Grown:
            return _grow(known, sized, None, sizes, seed)

        return Trees(names, members, fit_interval(values, residuals, folds, fit))

    def forecast(self, table: Table) -> Forecasts:
        """Times and intervals of the rows of a table, whose own times are not read."""
        values, base = _columns(table, self.names), _base(table)
        mean = np.mean([member.predict(values) for member in self.members], axis=0)
        low, high = self.interval.around(mean, values)
        return Forecasts(base * 2.0**mean, base * 2.0**low, base * 2.0**high)


@dataclass(frozen=True)
class _Grown:
    """One XGBoost model."""

    booster: Any

    def predict(self, values: Array) -> Array:
        return np.asarray(self.booster.inplace_predict(values))


def _grow(
    values: Array, wanted: Array, weight: Array | None, settings: Settings, seed: int
) -> _Grown:
    xgb = xgboost()
    threads = settings.threads or None
    asked = {
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "max_depth": settings.depth,
        "eta": settings.rate,
        "subsample": settings.rows,
        "colsample_bynode": settings.columns,
        "min_child_weight": settings.least_weight,
        "seed": seed,
        "nthread": threads,
    }
    data = xgb.QuantileDMatrix(values, wanted, weight=weight, nthread=threads)
    return _Grown(xgb.train(asked, data, settings.rounds))


def _left_out(
    values: Array, wanted: Array, weight: Array, folds: Array, settings: Settings, seed: int
) -> Array:
    """Forecasts of each row by a model that did not learn from its family, (rows,)."""
    found = np.zeros(len(wanted))
    for fold in np.unique(folds):
        known, asked = folds != fold, folds == fold
        if known.any():
            grown = _grow(values[known], wanted[known], weight[known], settings, seed)
            found[asked] = grown.predict(values[asked])
    return found


def target(table: Table) -> Array:
    """What is learned, (rows,)."""
    return np.asarray(np.log2(table.time_ms / _base(table)))


def _base(table: Table) -> Array:
    return np.where(np.isnan(table.modelled_ms), table.sol_ms, table.modelled_ms)


def weights(table: Table, focus: float) -> Array:
    """(best of the problem on the GPU / time) ** focus, (rows,)."""
    pairs = np.char.add(np.char.add(table.about["problem_id"], " "), table.about["device"])
    _, place = np.unique(pairs, return_inverse=True)
    best = np.full(place.max() + 1, np.inf)
    np.minimum.at(best, place, table.time_ms)
    return np.asarray((best[place] / table.time_ms) ** focus)


def _columns(table: Table, names: Sequence[str]) -> Array:
    known = {name: place for place, name in enumerate(table.names)}
    values = np.full((len(table), len(names)), np.nan, np.float32)
    for place, name in enumerate(names):
        if name in known:
            values[:, place] = table.values[:, known[name]]
    return values


def xgboost() -> Any:
    """The module.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import xgboost as found
    except ImportError as error:
        raise UnsupportedError(
            "the surrogate needs xgboost: pip install xgboost-cpu (6 MB), or xgboost"
        ) from error
    return found
