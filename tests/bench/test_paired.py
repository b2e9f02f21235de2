"""Whether one score is better than another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import synthetic
from paired import paired_bootstrap

from solkit.surrogate.evaluation.pools import draw_pools
from solkit.surrogate.evaluation.regret_metrics import ranking_figures


@pytest.fixture(scope="module")
def table():
    return synthetic.table(rows=2400, families=24)


def noisy(table, spread, seed=0):
    return table.time_ms * 2.0 ** (spread * np.random.default_rng(seed).normal(size=len(table)))


def pools(table):
    return list(draw_pools(table, "problem", np.arange(len(table))))


@pytest.mark.slow
def test_a_better_score_is_told_from_a_worse_one(table):
    comparison = paired_bootstrap(table, pools(table), noisy(table, 0.3), noisy(table, 2.0, seed=1))
    assert 0 < comparison.spearman.low < comparison.spearman.value < comparison.spearman.high
    assert comparison.regret.low < comparison.regret.value < comparison.regret.high < 1
    back = paired_bootstrap(table, pools(table), noisy(table, 2.0, seed=1), noisy(table, 0.3))
    assert back.spearman.value == pytest.approx(-comparison.spearman.value, abs=1e-9)
    assert back.regret.low > 1


@pytest.mark.slow
def test_the_difference_is_that_of_the_figures(table):
    ours, theirs = noisy(table, 0.5), noisy(table, 1.0, seed=1)
    comparison = paired_bootstrap(table, pools(table), ours, theirs)
    one, two = (ranking_figures(table, pools(table), item) for item in (ours, theirs))
    gain = one.spearman_median - two.spearman_median
    assert comparison.spearman.value == pytest.approx(gain)
    assert comparison.regret.value == pytest.approx(one.regrets[3] / two.regrets[3])


@pytest.mark.slow
def test_equal_scores_do_not_differ(table):
    comparison = paired_bootstrap(table, pools(table), noisy(table, 0.5), noisy(table, 0.5))
    assert (comparison.spearman.low, comparison.spearman.high) == (0, 0)
    assert (comparison.regret.low, comparison.regret.high) == (1, 1)


@pytest.mark.slow
def test_what_rests_on_one_family_is_not_shown(table):
    few = table.about["family"] == "family0"
    better = np.where(few, table.time_ms, noisy(table, 1.0))
    comparison = paired_bootstrap(table, pools(table), better, noisy(table, 1.0))
    assert comparison.spearman.low <= 0 <= comparison.spearman.high
    assert comparison.regret.high >= 1


def test_problems_of_a_family_are_drawn_together(table):
    copies = replace(table, about={**table.about, "family": np.full(len(table), "one")})
    comparison = paired_bootstrap(
        copies, pools(copies), noisy(table, 0.5), noisy(table, 1.0, seed=1)
    )
    assert comparison.spearman.low == comparison.spearman.high  # one family: always the same draw
