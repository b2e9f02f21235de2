"""Figures, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from synthetic import table

from solkit.surrogate.evaluation.figures import figures_of, regrets, spearman, time_error
from solkit.surrogate.evaluation.pools import Pool


def test_rank_correlation_is_scipys_with_and_without_ties():
    random = np.random.default_rng(0)
    for _ in range(20):
        left, right = random.integers(0, 12, 20), random.normal(size=20)
        assert spearman(left, right) == pytest.approx(stats.spearmanr(left, right).statistic)


def test_a_constant_score_ranks_nothing():
    assert spearman(np.ones(9), np.arange(9.0)) == 0


def test_regret_is_of_the_best_among_the_first():
    times = np.array([1.0, 1.1, 1.5, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    scores = np.array([9, 8, 3, 2, 1, 4, 5, 6, 7])
    # ranked: 4, 2, 1.5, 5, 6, 7, 8, 1.1, 1.0
    assert regrets(scores, times) == pytest.approx([1.0, 0.5, 0.5, 0.1])


def test_errors_both_ways_are_alike():
    assert time_error(np.array([2.0, 0.5, 2.0]), np.ones(3)) == pytest.approx(1.0)


def test_pools_are_averaged_by_problem_and_then_by_family():
    made = table(64, families=2)
    score = made.time_ms.copy()
    family, problem = made.about["family"], made.about["problem_id"]
    pools = []
    for name in np.unique(problem):
        rows = np.flatnonzero(problem == name)
        pools += [Pool(str(name), rows[:8]), Pool(str(name), rows[8:])]
    one = np.flatnonzero(problem == "problem0")[:8]
    score[one] = -made.time_ms[one]  # the worst order, in one of two pools of one of two problems
    found = figures_of(made, pools, score)
    worst = min(made.time_ms[one].max() / made.time_ms[one].min() - 1, 1.0)
    assert found.regrets[1] == pytest.approx(worst / 2 / 2 / len(np.unique(family)))
    assert found.spearman_median == 1
    assert found.spearman_p10 == pytest.approx(np.quantile([0, 1, 1, 1], 0.1))
    assert found.problems == 4
