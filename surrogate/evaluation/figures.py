"""The figures of a forecast: rank correlation, regret, time error.

::

    Spearman   mean over the pools of a group, then median and 10th percentile over groups
    regret@n   min(time of the first n) / min(time of all) - 1, at most 1 a pool;
               mean over pools of a problem, then over problems of a family, then over families
    error      median of exp |ln(forecast / true)| - 1 over rows
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from solkit.surrogate.evaluation.pools import Pool
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

__all__ = ["FIRST", "Figures", "figures_of", "regrets", "spearman", "time_error"]

FIRST = (1, 3, 5, 8)
"""How many of the best-ranked are measured, for regret."""


@dataclass(frozen=True)
class Figures:
    """How well scores rank the pools of one kind.

    Attributes:
        spearman_median, spearman_p10: over groups.
        regrets: mean regret by how many are measured (`FIRST`), a fraction.
        problems: number of problems with pools.
    """

    spearman_median: float
    spearman_p10: float
    regrets: Mapping[int, float]
    problems: int


def figures_of(table: Table, pools: Iterable[Pool], score: Array) -> Figures:
    """How well a score ranks: the lower, the faster.

    Args:
        table: with the times.
        pools: of one kind.
        score: (rows of the table,).
    """
    ranks: defaultdict[str, list[float]] = defaultdict(list)
    lost: defaultdict[str, defaultdict[str, list[list[float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for pool in pools:
        times, scores = table.time_ms[pool.rows], score[pool.rows]
        ranks[pool.group].append(spearman(scores, times))
        first = pool.rows[0]
        family, problem = (str(table.about[name][first]) for name in ("family", "problem_id"))
        lost[family][problem].append(regrets(scores, times))
    if not ranks:
        return Figures(np.nan, np.nan, dict.fromkeys(FIRST, np.nan), 0)
    means = [float(np.mean(each)) for each in ranks.values()]
    by_family = [
        np.mean([np.mean(pools, axis=0) for pools in problems.values()], axis=0)
        for problems in lost.values()
    ]
    mean = np.mean(by_family, axis=0)
    problems = len({problem for each in lost.values() for problem in each})
    return Figures(
        float(np.median(means)),
        float(np.quantile(means, 0.1)),
        {n: float(value) for n, value in zip(FIRST, mean, strict=True)},
        problems,
    )


def spearman(left: Array, right: Array) -> float:
    """Rank correlation, ties at their mean rank; 0 if one side is constant."""
    a, b = _ranks(left), _ranks(right)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else 0.0


def _ranks(values: Array) -> Array:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place])


def regrets(scores: Array, times_ms: Array) -> list[float]:
    """The regret of a pool for each number of `FIRST`."""
    ranked = times_ms[np.argsort(scores, kind="stable")]
    best = ranked.min()
    return [min(float(ranked[:n].min() / best) - 1, 1.0) for n in FIRST]


def time_error(forecast_ms: Array, time_ms: Array) -> float:
    """The median relative error, a fraction; both ways alike."""
    return float(np.expm1(np.median(np.abs(np.log(forecast_ms / time_ms)))))
