"""The ratio of two candidates' times, from calls in turns, with its uncertainty.

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

Why this test. If two candidates are the same, a coin toss decides which of a turn's two times is a
and which is b, whatever the clock did between turns. So d(i) and -d(i) are equally likely,
independently of the others, which is all that the test needs: drift cannot cause a false claim
(Fisher, "The Design of Experiments", 1935, section 21). Outliers move it little; without them it
needs a twentieth more turns than a mean. The interval is widened by the `resolution`, which
repeating cannot average out: the difference between two processes that run the same, and the step
of the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from solkit.core import Difference, Ratio
from solkit.measure.timing.protocols import PROTOCOLS

LIKENESS = 0.004
"""Distance from 1 of a kernel's ratio to itself on an H100: an 8192³ matrix product, called in
turns, whose separate runs differed by 11 to 15 %. With it none of 80 comparisons of a kernel with
itself showed a difference, without it 8 did (``bench/data/aa_h100.json``)."""

TICK_MS = {
    "cupti": 32e-6,
    "events": 5e-4,
    "graph replay": 5e-4 / PROTOCOLS["replay"].calls,  # events around so many
}
"""The clock step of each timing method.

CUPTI: the ends of a median's interval lie a multiple of 32 ns apart, give or take one, in 94 % of
the rows of `solkit.datasets.kernelbench`, measured on an H100. Events: half a microsecond, roughly
(CUDA Runtime API, cudaEventElapsedTime)."""

_CONFIDENCE = 0.95
_MOST_EXACT = 25  # turns; from there on the normal approximation is as good to a rank


def compute_ratio(
    base_ms: Sequence[float], candidate_ms: Sequence[float], method: str = "cupti"
) -> Ratio:
    """Return the candidate's time over the base's, with its 95 % interval, from a time a turn.

    `method` is how they were measured: a key of `TICK_MS`.

    Raises:
        ValueError: there are no times, or the numbers differ.
    """
    middle, low, high = _walsh_interval(base_ms, candidate_ms)
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
    """Judge a ratio: it shows a difference only if its interval excludes 1."""
    if ratio.high < 1:
        return Difference.FASTER
    return Difference.SLOWER if ratio.low > 1 else Difference.NOT_SHOWN


def half_width(base_ms: Sequence[float], candidate_ms: Sequence[float]) -> float:
    """Return the ratio's relative uncertainty that more turns can reduce."""
    _, low, high = _walsh_interval(base_ms, candidate_ms)
    return (high - low) / 2


def _walsh_interval(
    base_ms: Sequence[float], candidate_ms: Sequence[float]
) -> tuple[float, float, float]:
    """Return the median of the Walsh averages of log ratios and the ends of its interval."""
    if not base_ms or len(base_ms) != len(candidate_ms):
        raise ValueError(f"{len(base_ms)} and {len(candidate_ms)} times are not pairs")
    logs = np.log(np.asarray(candidate_ms) / np.asarray(base_ms))
    first, second = np.triu_indices(len(logs))
    averages = np.sort((logs[first] + logs[second]) / 2)
    rank = _signed_rank_limit(len(logs))
    if rank == 0:
        return float(np.median(averages)), -math.inf, math.inf
    return float(np.median(averages)), float(averages[rank - 1]), float(averages[-rank])


def _signed_rank_limit(count: int) -> int:
    """C, the largest for which P(T <= C - 1) is at most 2.5 %; 0 if there is none (n < 6)."""
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
