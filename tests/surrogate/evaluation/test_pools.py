"""Pools by their definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from synthetic import table

from solkit.surrogate.evaluation.pools import draw_pools


def pools_of(results, kind="problem", seed=0):
    return list(draw_pools(results, kind, np.arange(len(results)), seed))


def test_a_small_group_is_one_pool():
    result = table(16 * 8)  # 16 problems of 8 rows
    pools = pools_of(result)
    assert sorted(len(pool.rows) for pool in pools) == [8] * len(pools)
    for pool in pools:
        assert len(set(result.about["problem_id"][pool.rows])) == 1


def test_seven_rows_are_no_pool():
    assert pools_of(table(16 * 7)) == []


def test_twenty_pools_are_drawn_where_there_are_more_than_48():
    pools = pools_of(table(2 * 60, families=1))
    assert len(pools) == 40
    assert {len(set(pool.rows)) for pool in pools} == {48}


def test_draws_follow_the_seed():
    result = table(2 * 60, families=1)
    rows = [[pool.rows.tolist() for pool in pools_of(result, seed=seed)] for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


def test_a_pool_where_nothing_is_to_be_won_does_not_count():
    results = table(2 * 20, families=1)
    flat = replace(results, time_ms=np.linspace(1, 1.06, len(results)))
    assert pools_of(flat) == []


def test_a_pool_is_on_one_gpu():
    result = table(2 * 60, families=1, devices=("h100-sxm", "h200"))
    for kind in ("problem", "kernel"):
        for pool in pools_of(result, kind):
            assert len(set(result.about["device"][pool.rows])) == 1


def test_a_kernels_pool_has_one_kernel_at_one_shape():
    result = table(4 * 20, families=1)
    pools = pools_of(result, "kernel")
    assert pools
    for pool in pools:
        assert len(set(result.about["kernel_id"][pool.rows])) == 1
        assert len(set(result.about["problem_id"][pool.rows])) == 1


def test_no_rows_have_no_pools():
    assert list(draw_pools(table(20), "kernel", np.array([], int))) == []
