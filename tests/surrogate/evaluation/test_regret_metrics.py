"""Figures, against scipy and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import table

from solkit.surrogate.evaluation.pools import Pool
from solkit.surrogate.evaluation.regret_metrics import (
    judge_kernel_pairs,
    median_time_error,
    needed_measurements,
    pool_regrets,
    ranking_figures,
    spearman,
)


def test_rank_correlation_is_scipys_with_and_without_ties():
    from scipy import stats  # takes long to import

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
    assert pool_regrets(scores, times) == pytest.approx([1.0, 0.5, 0.5, 0.1])


def test_errors_both_ways_are_alike():
    assert median_time_error(np.array([2.0, 0.5, 2.0]), np.ones(3)) == pytest.approx(1.0)


def test_pools_are_averaged_by_problem_and_then_by_family():
    result = table(64, families=2)
    score = result.time_ms.copy()
    family, problem = result.about["family"], result.about["problem_id"]
    pools = []
    for name in np.unique(problem):
        rows = np.flatnonzero(problem == name)
        pools += [Pool(str(name), rows[:8]), Pool(str(name), rows[8:])]
    one = np.flatnonzero(problem == "problem0")[:8]
    score[one] = -result.time_ms[one]  # the worst order, in one of two pools of one of two problems
    results = ranking_figures(result, pools, score)
    worst = min(result.time_ms[one].max() / result.time_ms[one].min() - 1, 1.0)
    assert results.regrets[1] == pytest.approx(worst / 2 / 2 / len(np.unique(family)))
    assert results.spearman_median == 1
    assert results.spearman_p10 == pytest.approx(np.quantile([0, 1, 1, 1], 0.1))
    assert results.problems == 4


def test_what_is_needed_is_one_within_two_per_cent():
    times = np.array([1.0, 1.015, 1.5, 2.0])
    assert needed_measurements(np.array([4, 3, 2, 1]), times) == 3  # ranked 2, 1.5, 1.015
    assert needed_measurements(times, times) == 1


def test_k_is_what_nine_of_ten_pools_need():
    result = table(128, families=1)
    rows = np.arange(10)
    score = np.tile(np.arange(10.0), 13)[:128]
    times = np.full(128, 9.0)
    for pool in range(12):  # the best is the first of ten pools, the fifth and the seventh of two
        times[10 * pool + {10: 4, 11: 6}.get(pool, 0)] = 1.0
    result = replace(result, time_ms=times)
    pools = [Pool(f"pool{place}", 10 * place + rows) for place in range(12)]
    assert ranking_figures(result, pools[:10], score).k_90 == 1
    assert ranking_figures(result, pools[:11], score).k_90 == 1  # ten of eleven
    assert ranking_figures(result, pools, score).k_90 == 5  # ten of twelve are too few
    assert ranking_figures(result, pools, score).k_90_of_48 == 0  # there are none
    alike = [Pool("pool0", pool.rows) for pool in pools[:10]] + [Pool("b", pools[10].rows)]
    assert ranking_figures(result, alike, score).k_90 == 5  # groups weigh the same


def test_pairs_are_of_different_kernels_and_some_way_apart():
    changed = replace(
        table(4, families=1),
        time_ms=np.array([1.0, 1.1, 1.3, 2.0]),
        about=table(4).about | {"kernel_id": np.array(["a", "b", "b", "a"])},
    )
    score = np.array([1.0, 0.5, 0.9, 2.0])
    kernel_pairs = judge_kernel_pairs(changed, [Pool("p", np.arange(4))], score)
    # over 1.2 apart: 1.0 and 1.3 (wrong), 1.1 and 2.0, 1.3 and 2.0 (right); one kernel: 1.0 and 2.0
    assert kernel_pairs["over_1.2"].right == pytest.approx(2 / 3)
    assert kernel_pairs["1.2_to_1.5"].right == 0
    assert kernel_pairs["over_1.2"].problems == 1
    equal = judge_kernel_pairs(changed, [Pool("p", np.arange(4))], np.ones(4))
    assert equal["over_1.2"].right == 0.5
