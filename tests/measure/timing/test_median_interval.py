from __future__ import annotations

import itertools
import random
from statistics import median

import pytest

from solkit.measure.timing.median_interval import interval_rank, median_interval


def covered_by_brute_force(count: int, k: int) -> float:
    """The share of all patterns of samples below and above the median that [x(k), x(n+1-k)] covers.

    Each sample is below or above with equal chance; the interval covers the median unless fewer
    than k samples lie on one of its sides.
    """
    patterns = list(itertools.product((0, 1), repeat=count))
    return sum(k <= sum(p) <= count - k for p in patterns) / len(patterns)


@pytest.mark.parametrize("count", range(6, 17))
def test_rank_is_the_largest_that_covers_95_percent(count):
    k = interval_rank(count, 0.95)
    assert covered_by_brute_force(count, k) >= 0.95
    assert covered_by_brute_force(count, k + 1) < 0.95


def test_ranks_of_published_tables():
    # Le Boudec (2010), appendix A, table A.1: 95 % intervals of the median
    assert {n: interval_rank(n, 0.95) for n in (6, 9, 20, 50, 70)} == {
        6: 1,
        9: 2,
        20: 6,
        50: 18,
        70: 27,
    }


@pytest.mark.parametrize("count", range(1, 6))
def test_too_few_samples_give_their_whole_range(count):
    samples = [float(i) for i in range(count)]
    interval = median_interval(samples)
    assert (interval.low, interval.high) == (0.0, count - 1.0)


def test_interval_covers_the_median_of_a_skewed_distribution():
    generator = random.Random(7)
    true_median = 0.6931471805599453  # ln 2, of the exponential distribution
    hits = 0
    for _ in range(2000):
        interval = median_interval([generator.expovariate(1.0) for _ in range(40)])
        hits += interval.low <= true_median <= interval.high
    assert 0.945 <= hits / 2000 <= 0.985  # exact coverage at n = 40 is 96.2 %


def test_median_and_relative_error():
    samples = [5.0, 1.0, 2.0, 4.0, 3.0, 9.0, 8.0, 7.0, 6.0]
    interval = median_interval(samples)
    assert interval.median == median(samples) == 5.0
    assert (interval.low, interval.high) == (2.0, 8.0)
    assert interval.relative_error == pytest.approx(0.6)


def test_relative_error_takes_the_farther_side():
    interval = median_interval([10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 12.0])
    assert interval.relative_error == pytest.approx(0.2)


def test_no_samples():
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])
