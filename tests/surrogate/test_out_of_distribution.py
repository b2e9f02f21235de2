"""Doubt, reach and scatter, against values by hand."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import table

from solkit.surrogate.out_of_distribution import (
    CandidateBudget,
    fit_candidate_budget,
    fit_ood_detector,
    fit_variance_components,
    rows_by_cell,
)


def test_it_abstains_where_large_errors_are_expected():
    values = np.zeros((1000, 2), np.float32)
    size = np.linspace(0.1, 1.0, 1000)
    doubt, abstained = fit_ood_detector(values, size, np.arange(1000) % 5)
    assert abstained.sum() == 10
    assert abstained[-10:].all()
    assert doubt.abstains(values[:2], np.array([0.2, 0.995])).tolist() == [False, True]


def test_it_abstains_on_features_unlike_any_known():
    random = np.random.default_rng(0)
    values = random.normal(size=(2000, 8)).astype(np.float32)
    doubt, _ = fit_ood_detector(values, np.full(2000, 0.1), np.arange(2000) % 5)
    usual, foreign = np.zeros((1, 8), np.float32), np.full((1, 8), 50, np.float32)
    unknown = np.full((1, 8), np.nan, np.float32)  # no feature is known: none is foreign
    request = np.concatenate([usual, foreign, unknown])
    assert doubt.abstains(request, np.full(3, 0.1)).tolist() == [False, True, False]


def test_how_many_must_be_measured():
    reach = CandidateBudget(2.0)
    size = np.full(4, 0.5)  # so forecasts up to 1 above the lowest count
    assert reach.number(np.array([3.0, 1.0, 1.9, 2.1]), size) == 2
    assert reach.number(np.array([]), np.array([])) == 0


def test_reach_holds_for_nine_pools_in_ten():
    drawn = table(2000, families=4)
    random = np.random.default_rng(1)
    log_ms = np.log2(drawn.time_ms) + random.normal(0, 0.5, len(drawn))
    size = np.full(len(drawn), 0.3)
    reach = fit_candidate_budget(drawn, log_ms, size)
    results = []
    for rows in rows_by_cell(drawn):
        first = np.argsort(log_ms[rows])[: reach.number(log_ms[rows], size[rows])]
        results.append(drawn.time_ms[rows][first].min() <= 1.02 * drawn.time_ms[rows].min())
    assert np.mean(results) >= 0.9
    nearer = CandidateBudget(
        reach.steps * 0.99
    )  # the least that holds: with less some pool is lost
    lost = [
        drawn.time_ms[rows][np.argsort(log_ms[rows])[: nearer.number(log_ms[rows], size[rows])]]
        .min() > 1.02 * drawn.time_ms[rows].min()
        for rows in rows_by_cell(drawn)
    ]  # fmt: skip
    assert sum(lost) > sum(not result for result in results) or reach.steps == 0


def test_scatter_is_the_variance_that_groups_share():
    random = np.random.default_rng(0)
    known_value = table(4000, families=40)
    family = np.unique(known_value.about["family"], return_inverse=True)[1]
    shared = random.normal(size=40)[family]
    size = np.where(np.arange(4000) % 3, 0.2, 0.4)
    scatter = fit_variance_components(
        known_value, size * (shared + 0.5 * random.normal(size=4000)), size
    )
    assert scatter.family == pytest.approx(np.mean(shared**2), abs=0.05)
    assert scatter.rest == pytest.approx(0.25, abs=0.03)
    assert scatter.kernel + scatter.cell < 0.05
