"""Intervals that hold for families that were never seen: split conformal, scaled, by group.

Residuals come from models that did not learn from the row's family (cross-validation by group). A
small model of their size scales them, so that an interval is wide where forecasts are poor::

    score    = residual / size(x)
    interval = mean + size(x) x (5 % quantile of scores, 95 % quantile of scores)

Papadopoulos et al., "Normalized nonconformity measures for regression conformal prediction" (2008);
the sizes behind the scores are cross-validated by group as well, or the quantiles would be too
narrow. Groups count alike in the quantiles, however many rows they have: a row of a new group is in
its interval as often as promised if groups are drawn at random (Dunn et al., "Distribution-free
prediction sets for two-layer hierarchical models", 2023).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.surrogate.features import Array

COVERAGE = 0.9
GROUPS = 5
"""Folds of families, for residuals."""

_LEAST = 2.0**-6
"""The least size of a residual, in log2: 1 %, about what repeated timings differ by."""

Fit = Callable[[Array, Array], Any]
"""Fit of features (rows, names) to a target (rows,): a model with ``predict``."""


@dataclass(frozen=True)
class Interval:
    """Range of the truth with `COVERAGE`, around a forecast of a log2.

    Attributes:
        sizes: the model of log2 |residual|.
        low, high: quantiles of the scores.
    """

    sizes: Any
    low: float
    high: float

    def size(self, values: Array) -> Array:
        """Return the size of a typical error, in log2, (rows,), for features (rows, names)."""
        return _predict_sizes(self.sizes, values)


def fit_interval(
    values: Array, residuals: Array, groups: Array, fit: Fit
) -> tuple[Interval, Array]:
    """Learn how large residuals are, and how far to trust that.

    Args:
        values: features, (rows, names).
        residuals: of forecasts by models that did not know the row's group, (rows,).
        groups: the group of each row, such as its family, (rows,).
        fit: fits the model of sizes.

    Returns:
        The interval; and the size of each row's residual by a model that did not know its group.
    """
    folds = group_folds(groups)
    target = np.log2(np.maximum(np.abs(residuals), _LEAST))
    size: Array = np.full(len(residuals), np.nan)
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if train.any():
            size[test] = _predict_sizes(fit(values[train], target[train]), values[test])
    size = np.where(np.isnan(size), np.abs(residuals).mean(), size)  # there is but one fold
    tail = (1 - COVERAGE) / 2
    _, place, rows = np.unique(groups, return_inverse=True, return_counts=True)
    low, high = _weighted_quantiles(residuals / size, 1 / rows[place], (tail, 1 - tail))
    return Interval(fit(values, target), low, high), size


def _weighted_quantiles(values: Array, weights: Array, shares: Sequence[float]) -> list[float]:
    """Return the least values up to which some shares of the weight lie."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    places = np.searchsorted(total, np.array(shares) * total[-1])
    return [float(value) for value in values[order][places]]


def _predict_sizes(model: Any, values: Array) -> Array:
    return np.asarray(2.0 ** np.maximum(model.predict(values), np.log2(_LEAST)))


def group_folds(groups: Array, number: int = GROUPS) -> Array:
    """Return one of some folds for each row, (rows,): by a hash of its group."""
    distinct, where = np.unique(groups, return_inverse=True)
    digests = (hashlib.sha256(f"interval {name}".encode()).digest() for name in distinct)
    return np.array([digest[0] % number for digest in digests])[where]
