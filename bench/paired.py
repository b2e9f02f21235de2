"""Is one forecaster better than another? A paired bootstrap over families.

Families are drawn with replacement, with all their problems, for both forecasters alike: what a
family has in common would otherwise be taken for evidence many times over (Efron and Tibshirani,
"An introduction to the bootstrap", 1993).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from solkit.surrogate.evaluation.pools import Pool
from solkit.surrogate.evaluation.regret_metrics import pool_regrets, spearman
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

_DRAWS = 2000
_INTERVAL = (0.025, 0.975)


@dataclass(frozen=True)
class Interval:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Distance of a forecaster from another.

    Attributes:
        spearman: the median over groups less the other's.
        regret: mean regret over the other's, a ratio.
    """

    spearman: Interval
    regret: Interval


def paired_bootstrap(
    table: Table, pools: Iterable[Pool], ours: Array, theirs: Array, first: int = 3, seed: int = 0
) -> Difference:
    """Compare two scores on the same pools.

    Args:
        table: with the times.
        pools: of one kind.
        ours: scores, the lower, the faster, (rows of the table,).
        theirs: scores of the other, likewise.
        first: how many are measured, for regret.
        seed: of the draws.
    """
    ranks: defaultdict[str, defaultdict[str, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    lost: defaultdict[str, defaultdict[str, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for pool in pools:
        times, row = table.time_ms[pool.rows], pool.rows[0]
        family, problem = (str(table.about[name][row]) for name in ("family", "problem_id"))
        scores = ours[pool.rows], theirs[pool.rows]
        one, two = (spearman(score, times) for score in scores)
        ranks[family][pool.group].append((one, two))
        one, two = (pool_regrets(score, times, (first,))[0] for score in scores)
        lost[family][problem].append((one, two))
    families = sorted(ranks)
    by_group = [np.array([np.mean(pairs, axis=0) for pairs in ranks[f].values()]) for f in families]
    by_family = np.array(
        [np.mean([np.mean(pairs, axis=0) for pairs in lost[f].values()], axis=0) for f in families]
    )
    chance = np.random.default_rng(seed)
    drawn = [chance.integers(0, len(families), len(families)) for _ in range(_DRAWS)]
    gained = [
        _median_difference(np.concatenate([by_group[at] for at in sample])) for sample in drawn
    ]
    ratios = [_regret_ratio(by_family[sample]) for sample in drawn]
    return Difference(
        Interval(_median_difference(np.concatenate(by_group)), *_bootstrap_interval(gained)),
        Interval(_regret_ratio(by_family), *_bootstrap_interval(ratios)),
    )


def _bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, _INTERVAL)
    return float(low), float(high)


def _median_difference(groups: Array) -> float:
    one, two = np.median(groups, axis=0)
    return float(one - two)


def _regret_ratio(families: Array) -> float:
    one, two = families.mean(axis=0)
    return float(one / two) if two else 1.0
