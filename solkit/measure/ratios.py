"""How much longer one candidate takes than another, from calls made in turns, and how sure that is.

Notation
    a(i), b(i)  times of the base and of the candidate in turn i, in an order drawn at random
    d(i)        log(b(i) / a(i)), n of them
    W           the Walsh averages (d(i) + d(j)) / 2 of all i <= j, sorted: M = n (n + 1) / 2
    T           Wilcoxon's signed-rank statistic if no sign were likelier than the other
    C           the interval is [W(C), W(M + 1 - C)]

The ratio is exp of the median of W, the estimator of Hodges & Lehmann ("Estimates of Location Based
on Rank Tests", Ann. Math. Statist. 34, 1963); its interval holds what Wilcoxon's signed-rank test
does not reject. Source: Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods" (3rd ed.,
2014), sections 3.1 to 3.3.

Why this one. Where two candidates are the same, which of a turn's two times is called a and which b
is the toss of a coin, whatever the clock did between turns, and whoever came first within one. So
each d(i) is as likely as -d(i), independently of the others, and that alone is what the test asks
for: no drift can make a false claim. (Fisher, "The Design of Experiments", 1935, section 21.) A few
wild times move it little, and it needs a twentieth more turns than a mean where there are none.

What repeating cannot average out is the `resolution`, by which the interval is widened: what two
processes that run the same differ by, and the steps of the clock that times them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from solkit.core import Difference, Ratio
from solkit.measure.protocols import PROTOCOLS

__all__ = ["LIKENESS", "TICK_MS", "difference", "half_width", "ratio_of"]

LIKENESS = 0.004
"""How far ratios of a kernel to itself were seen from 1 on an H100: those of an 8192³ matrix
product, called in turns, whose separate runs differed by 11 to 15 %. With it none of 80 comparisons
of a kernel with itself showed a difference, without it 8 did (``bench/data/aa_h100.json``)."""

TICK_MS = {
    "cupti": 32e-6,
    "events": 5e-4,
    "graph replay": 5e-4 / PROTOCOLS["replay"].calls,  # events around so many
}
"""The step of the clock behind each way of timing.

CUPTI: the ends of a median's interval lie a multiple of 32 ns apart, give or take one, in 94 % of
the rows of `solkit.datasets.kernelbench`, measured on an H100. Events: half a microsecond, roughly
(CUDA Runtime API, cudaEventElapsedTime)."""

_CONFIDENCE = 0.95
_MOST_EXACT = 25  # turns; from there on the normal approximation is as good to a rank


def ratio_of(
    base_ms: Sequence[float], candidate_ms: Sequence[float], method: str = "cupti"
) -> Ratio:
    """The candidate's time over the base's, with its 95 % interval.

    Args:
        base_ms: times, one a turn.
        candidate_ms: likewise.
        method: how they were taken, of `TICK_MS`.

    Raises:
        ValueError: there are no times, or not as many of one as of the other.
    """
    middle, low, high = _interval(base_ms, candidate_ms)
    # W has steps of half a tick's share, so its median is off by half of such a step at most
    resolution = LIKENESS + TICK_MS[method] / min(*base_ms, *candidate_ms) / 4
    return Ratio(
        value=math.exp(middle),
        low=math.exp(low - resolution),
        high=math.exp(high + resolution),
        resolution=resolution,
        turns=len(base_ms),
    )


def difference(ratio: Ratio) -> Difference:
    """What a ratio shows: a difference only where its interval leaves 1 out."""
    if ratio.high < 1:
        return Difference.FASTER
    return Difference.SLOWER if ratio.low > 1 else Difference.NOT_SHOWN


def half_width(base_ms: Sequence[float], candidate_ms: Sequence[float]) -> float:
    """How uncertain the ratio still is, as a share of it, for lack of turns alone."""
    _, low, high = _interval(base_ms, candidate_ms)
    return (high - low) / 2


def _interval(
    base_ms: Sequence[float], candidate_ms: Sequence[float]
) -> tuple[float, float, float]:
    """The median of the Walsh averages of log ratios and the ends of its interval."""
    if not base_ms or len(base_ms) != len(candidate_ms):
        raise ValueError(f"{len(base_ms)} and {len(candidate_ms)} times are not pairs")
    logs = np.log(np.asarray(candidate_ms) / np.asarray(base_ms))
    first, second = np.triu_indices(len(logs))
    averages = np.sort((logs[first] + logs[second]) / 2)
    rank = _rank(len(logs))
    if rank == 0:
        return float(np.median(averages)), -math.inf, math.inf
    return float(np.median(averages)), float(averages[rank - 1]), float(averages[-rank])


def _rank(count: int) -> int:
    """C, the largest for which P(T <= C - 1) is at most 2.5 %; 0 where there is none (n < 6)."""
    tail = (1 - _CONFIDENCE) / 2
    if count > _MOST_EXACT:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return int(count * (count + 1) / 4 - NormalDist().inv_cdf(1 - tail) * spread)
    ways = [1]  # ways[t]: how many of the 2^n choices of signs have T = t
    for magnitude in range(1, count + 1):
        grown = ways + [0] * magnitude
        for total, number in enumerate(ways):
            grown[total + magnitude] += number
        ways = grown
    rank, below = 0, ways[0]
    while below <= tail * 2**count:
        rank += 1
        below += ways[rank]
    return rank
