"""Doubt of a model about itself: where it abstains, how many to measure, what is shared.

All of it is learned from forecasts of rows of families that a model did not know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

_ABSTAINING = 0.01
"""Share of unknown families' rows where the largest errors are expected. Where some candidates of a
problem have the kernel model's time and others the trees', their order is worse than by the trees
alone: with 0.1 regrets of unknown families were a tenth larger (docs/lab/surrogate.md)."""
_NOVEL = 0.99
_RANGE = (0.001, 0.999)
_CONFIDENCE = 0.9
_NEAR = 1.02
"""A candidate within 2 % of the best is as good."""
_LEAST_POOL = 8


@dataclass(frozen=True)
class OODDetector:
    """Limits of abstention: large errors are expected, or the features are unlike any known.

    Attributes:
        size: the largest error that is trusted, in log2.
        low, high: what the features of nearly all known rows lie between, (names,) each.
        outside: the largest share of a row's features that may lie outside.
    """

    size: float
    low: Array
    high: Array
    outside: float

    def abstains(self, values: Array, size: Array) -> Array:
        """Tell whether to abstain, (rows,): features are (rows, names), expected errors (rows,)."""
        return np.asarray(
            (size > self.size) | (_outside_share(values, self.low, self.high) > self.outside)
        )


def fit_ood_detector(values: Array, size: Array, folds: Array) -> tuple[OODDetector, Array]:
    """Learn where to abstain.

    Args:
        values: features, (rows, names).
        size: expected errors by models that did not know the row's family, (rows,).
        folds: the fold of each row's family.

    Returns:
        The doubt, and whether it would have abstained, (rows,).
    """
    outside = np.zeros(len(values))
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if train.any():
            outside[test] = _outside_share(values[test], *_feature_ranges(values[train]))
    limits = float(np.quantile(size, 1 - _ABSTAINING)), float(np.quantile(outside, _NOVEL))
    doubt = OODDetector(limits[0], *_feature_ranges(values), limits[1])
    return doubt, np.asarray((size > limits[0]) | (outside > limits[1]))


def _feature_ranges(values: Array) -> tuple[Array, Array]:
    present = ~np.isnan(values)
    low, high = np.full((2, values.shape[1]), np.nan, np.float32)
    low[:], high[:] = -np.inf, np.inf
    for place in np.flatnonzero(present.any(axis=0)):
        low[place], high[place] = np.quantile(values[present[:, place], place], _RANGE)
    return low, high


def _outside_share(values: Array, low: Array, high: Array) -> Array:
    present = ~np.isnan(values)
    out = (values < low) | (values > high)
    return np.asarray((out & present).sum(axis=1) / np.maximum(present.sum(axis=1), 1))


@dataclass(frozen=True)
class CandidateBudget:
    """Distance above the lowest forecast at which a good candidate's own forecast may lie.

    Attributes:
        steps: in units of the pool's median expected error: with 90 %, one of the candidates within
            2 % of the best has a forecast this close to the lowest.
    """

    steps: float

    def number(self, log_ms: Array, size: Array) -> int:
        """Return how many of a pool must be measured, in the order of their forecasts.

        Args:
            log_ms: log2 of forecast times, (rows,).
            size: expected errors, in log2, (rows,).
        """
        if not len(log_ms):
            return 0
        limit = log_ms.min() + self.steps * float(np.median(size))
        return int((log_ms <= limit).sum())


def fit_candidate_budget(table: Table, log_ms: Array, size: Array) -> CandidateBudget:
    """Learn `CandidateBudget` from the kernels and shapes of a table, over which it is conformal.

    Args:
        table: with the true times.
        log_ms: log2 of times as forecast by models that did not know the family, (rows,).
        size: expected errors, (rows,).
    """
    scores = []
    for rows in rows_by_cell(table):
        if len(rows) < _LEAST_POOL:
            continue
        good = table.time_ms[rows] <= _NEAR * table.time_ms[rows].min()
        above = log_ms[rows][good].min() - log_ms[rows].min()
        scores.append(above / float(np.median(size[rows])))
    if not scores:
        return CandidateBudget(np.inf)
    place = min(np.ceil(_CONFIDENCE * (len(scores) + 1)) / len(scores), 1.0)
    return CandidateBudget(float(np.quantile(scores, place)))


def rows_by_cell(table: Table) -> list[Array]:
    """Return the rows of each kernel at each shape on each GPU."""
    names = table.row_keys(_CELL)
    order = np.argsort(names, kind="stable")
    starts = np.flatnonzero(names[order][1:] != names[order][:-1]) + 1
    return list(np.split(order, starts))


_CELL = ("kernel_id", "problem_id", "device")


@dataclass(frozen=True)
class VarianceComponents:
    """Shares of the residuals' variance of rows that have something in common.

    All in units of the squared error that was expected.

    Attributes:
        family: shared by all of what computes the same.
        kernel: beyond that, by all of one kernel file.
        cell: beyond that, by all of one kernel at one shape.
        rest: beyond that, of a configuration.
    """

    family: float
    kernel: float
    cell: float
    rest: float


def fit_variance_components(table: Table, residual: Array, size: Array) -> VarianceComponents:
    """Return variance components of residuals, from means of nested groups.

    Args:
        table: of the rows.
        residual: in log2; counts as 4 times the expected error where it is larger, (rows,).
        size: expected errors, in log2, (rows,).
    """
    scaled = np.clip(residual / size, -4, 4)
    groups = (np.unique(table.row_keys(names), return_inverse=True)[1] for names in _NESTED)
    within = [_variance_within(scaled, group) for group in groups]
    total = float(np.mean(scaled**2))
    family, kernel, cell = total - within[0], within[0] - within[1], within[1] - within[2]
    return VarianceComponents(
        max(family, 0.01), max(kernel, 0.01), max(cell, 0.01), max(within[2], 0.05)
    )


_NESTED = (
    ("family", "device"),
    ("family", "kernel_id", "device"),
    ("family", "kernel_id", "problem_id", "device"),
)


def _variance_within(values: Array, groups: Array) -> float:
    """Return the unbiased variance within groups of at least two rows."""
    counts = np.bincount(groups)
    means = np.bincount(groups, values) / counts
    squares = np.bincount(groups, (values - means[groups]) ** 2)
    many = counts > 1
    free = (counts[many] - 1).sum()
    return float(squares[many].sum() / free) if free else float(np.var(values))
