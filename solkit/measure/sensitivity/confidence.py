"""Lower confidence bounds of a share."""

from __future__ import annotations

import math

__all__ = ["lower_bound"]

_STEPS = 60  # of the bisection: 2^-60 is below what a float tells from 0


def lower_bound(hits: int, trials: int, risk: float) -> float:
    """Return the Clopper-Pearson lower bound of a share.

    The p at which `hits` or more of `trials` independent trials succeed with probability `risk`
    (Clopper and Pearson, Biometrika 26(4), 1934).

    Args:
        hits: how many trials succeeded.
        trials: how many there were.
        risk: the probability that the true share is below the bound.
    """
    if hits == 0:
        return 0.0
    low, high = 0.0, hits / trials
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _tail(hits, trials, middle) < risk:
            low = middle
        else:
            high = middle
    return low


def _tail(hits: int, trials: int, share: float) -> float:
    """Return the probability of so many hits or more."""
    if share <= 0.0:
        return 0.0
    if share >= 1.0:
        return 1.0
    return sum(
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(n + 1)
            - math.lgamma(trials - n + 1)
            + n * math.log(share)
            + (trials - n) * math.log1p(-share)
        )
        for n in range(hits, trials + 1)
    )
