"""The median of times and its confidence interval.

Notation
    n        samples, sorted: x(1) <= ... <= x(n)
    B        binomial(n, 1/2): how many samples of a continuous distribution lie below its median
    k        the interval is [x(k), x(n+1-k)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class MedianInterval:
    """A median with its confidence interval, in the unit of the samples."""

    median: float
    low: float
    high: float

    @property
    def relative_error(self) -> float:
        """The interval's farther end from the median, as a share of the median."""
        if self.median == 0:
            return math.inf if self.high > self.low else 0.0
        return max(self.high - self.median, self.median - self.low) / self.median


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> MedianInterval:
    """Return the median and its distribution-free interval between two order statistics.

    Raises:
        ValueError: no samples.
    """
    if not samples:
        raise ValueError("no samples to take a median of")
    ordered = sorted(samples)
    k = interval_rank(len(ordered), confidence)
    return MedianInterval(median(ordered), ordered[k - 1], ordered[len(ordered) - k])


def interval_rank(count: int, confidence: float) -> int:
    """Return the largest k whose interval [x(k), x(n+1-k)] covers the median with `confidence`.

    ::

        P(x(k) <= median <= x(n+1-k)) = 1 - 2 P(B <= k - 1)

    Source: Le Boudec, "Performance Evaluation of Computer and Communication Systems" (2010),
    theorem 2.1; also Hahn & Meeker, "Statistical Intervals" (1991), section 5.2.

    Fewer than six samples reach no 95 %: k is then 1, the interval their whole range.
    """
    k, below = 1, 1  # below = 2^n P(B <= k - 1), an integer
    while True:
        below += math.comb(count, k)
        if 2 * below > (1.0 - confidence) * 2**count or k + 1 > (count + 1) // 2:
            return k
        k += 1
