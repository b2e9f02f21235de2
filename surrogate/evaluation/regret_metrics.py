"""The figures of a forecast: rank correlation, regret, time error.

::

    Spearman   mean over the pools of a group, then median and 10th percentile over groups
    regret@n   min(time of the first n) / min(time of all) - 1, at most 1 a pool;
               mean over pools of a problem, then over problems of a family, then over families
    error      median of exp |ln(forecast / true)| - 1 over rows
    k for 90 % how many must be measured so that in nine of ten pools one within 2 % of the best is
               among them; each group counts once
    pairs      share of pairs of different kernels for one problem whose faster one is forecast to
               be faster; mean over a problem's pools, then over problems
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solkit.surrogate.evaluation.pools import Pool
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

FIRST = (1, 3, 5, 8)
"""Numbers of the best-ranked that are measured, for regret."""

APART = {"over_1.2": (1.2, np.inf), "1.2_to_1.5": (1.2, 1.5)}
"""Ratios of the slower one's time of a pair to the faster one's."""

_NEAR, _OFTEN, _FULL = 1.02, 0.9, 48


@dataclass(frozen=True)
class Figures:
    """Figures of scores that rank the pools of one kind.

    Attributes:
        spearman_median, spearman_p10: over groups.
        regrets: mean regret by how many are measured (`FIRST`), a fraction.
        problems: number of problems with pools.
        k_90: how many of a pool must be measured, in nine of ten pools; 0 without pools.
        k_90_of_48: the same of pools of 48.
    """

    spearman_median: float
    spearman_p10: float
    regrets: Mapping[int, float]
    problems: int
    k_90: int = 0
    k_90_of_48: int = 0


@dataclass(frozen=True)
class Pairs:
    """Share of pairs of kernels for a problem of which the faster one is told.

    Attributes:
        right: share, 0 to 1; NaN without pairs.
        problems: with such pairs.
    """

    right: float
    problems: int


def ranking_figures(table: Table, pools: Iterable[Pool], score: Array) -> Figures:
    """Judge how well a score ranks: the lower, the faster.

    Args:
        table: with the times.
        pools: of one kind.
        score: (rows of the table,).
    """
    pools = list(pools)
    if not pools:
        return Figures(np.nan, np.nan, dict.fromkeys(FIRST, np.nan), 0)
    ranks: defaultdict[str, list[float]] = defaultdict(list)
    for pool in pools:
        ranks[pool.group].append(spearman(score[pool.rows], table.time_ms[pool.rows]))
    means = [float(np.mean(correlations)) for correlations in ranks.values()]
    problems = len({str(table.about["problem_id"][pool.rows[0]]) for pool in pools})
    full = [pool for pool in pools if len(pool.rows) >= _FULL]
    return Figures(
        float(np.median(means)),
        float(np.quantile(means, 0.1)),
        dict(zip(FIRST, regret_curve(table, pools, score, FIRST), strict=True)),
        problems,
        _needed_in_most_pools(table, pools, score),
        _needed_in_most_pools(table, full, score),
    )


def regret_curve(
    table: Table, pools: Iterable[Pool], score: Array, first: Sequence[int]
) -> list[float]:
    """Return mean regret by number measured: over pools, a family's problems, then families."""
    lost: defaultdict[str, defaultdict[str, list[list[float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for pool in pools:
        first_row = pool.rows[0]
        family, problem = (str(table.about[name][first_row]) for name in ("family", "problem_id"))
        lost[family][problem].append(
            pool_regrets(score[pool.rows], table.time_ms[pool.rows], first)
        )
    by_family = [
        np.mean([np.mean(pools, axis=0) for pools in problems.values()], axis=0)
        for problems in lost.values()
    ]
    return [float(value) for value in np.mean(by_family, axis=0)]


def _needed_in_most_pools(table: Table, pools: Sequence[Pool], score: Array) -> int:
    """Return how many must be measured in nine of ten pools; pools of a group share its weight."""
    if not pools:
        return 0
    numbers = np.array(
        [needed_measurements(score[pool.rows], table.time_ms[pool.rows]) for pool in pools]
    )
    _, group, size = np.unique(
        [pool.group for pool in pools], return_inverse=True, return_counts=True
    )
    order = np.argsort(numbers, kind="stable")
    share = np.cumsum((1 / size[group])[order]) / len(size)
    place = int(np.searchsorted(share, _OFTEN - 1e-9))
    return int(numbers[order][min(place, len(order) - 1)])


def needed_measurements(scores: Array, times_ms: Array) -> int:
    """Return how many of a pool must be measured, in order, to have one within 2 % of its best."""
    ranked = times_ms[np.argsort(scores, kind="stable")]
    return int(np.argmax(ranked <= _NEAR * ranked.min())) + 1


def judge_kernel_pairs(table: Table, pools: Iterable[Pool], score: Array) -> dict[str, Pairs]:
    """Judge whether of two kernels for one problem the faster one is told.

    Args:
        table: with the times.
        pools: that mix the kernels of a problem.
        score: (rows of the table,); a pair with equal scores counts half.
    """
    rights: dict[str, defaultdict[str, list[float]]] = {name: defaultdict(list) for name in APART}
    for pool in pools:
        times, scores = table.time_ms[pool.rows], score[pool.rows]
        kernels = table.about["kernel_id"][pool.rows]
        fast, slow = np.nonzero((kernels[:, None] != kernels) & (times[:, None] < times))
        ratio = times[slow] / times[fast]
        right = (np.sign(scores[slow] - scores[fast]) + 1) / 2
        for name, (low, high) in APART.items():
            if len(kept := right[(ratio > low) & (ratio <= high)]):
                rights[name][pool.group].append(float(kept.mean()))
    return {
        name: Pairs(_mean_of_means(list(groups.values())), len(groups))
        for name, groups in rights.items()
    }


def _mean_of_means(groups: Sequence[Sequence[float]]) -> float:
    return float(np.mean([np.mean(group) for group in groups])) if groups else np.nan


def spearman(one: Array, other: Array) -> float:
    """Rank correlation, ties at their mean rank; 0 if one side is constant."""
    a, b = _average_ranks(one), _average_ranks(other)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else 0.0


def _average_ranks(values: Array) -> Array:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place])


def pool_regrets(scores: Array, times_ms: Array, first: Sequence[int] = FIRST) -> list[float]:
    """Return the regret of a pool for each number that may be measured."""
    best_so_far = (
        np.minimum.accumulate(times_ms[np.argsort(scores, kind="stable")]) / times_ms.min()
    )
    return [min(float(best_so_far[min(n, len(best_so_far)) - 1]) - 1, 1.0) for n in first]


def median_time_error(forecast_ms: Array, time_ms: Array) -> float:
    """Return the median relative error, a fraction; both ways alike."""
    return float(np.expm1(np.median(np.abs(np.log(forecast_ms / time_ms)))))
