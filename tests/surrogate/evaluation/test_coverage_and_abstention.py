"""Coverage and abstention, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic import table

from solkit.surrogate.evaluation.coverage_and_abstention import (
    coverage_by_family,
    measure_abstention,
    measure_coverage,
)
from solkit.surrogate.trees import Forecasts

MADE = table(100, families=4)


def forecasts(inside, abstains=None):
    time_ms = MADE.time_ms
    low = np.where(inside, 0.9, 1.1) * time_ms
    nothing = np.zeros(len(MADE), bool)
    return Forecasts(time_ms, low, 2 * time_ms, nothing, nothing if abstains is None else abstains)


def test_coverage_is_of_all_rows_and_of_the_poorest_families():
    outside = (MADE.about["family"] == "family2") & (np.arange(100) % 8 == 2)
    coverage = measure_coverage(MADE, forecasts(~outside))
    assert coverage.share == pytest.approx(1 - outside.mean())
    assert coverage.worst == pytest.approx(1 - outside.sum() / 25)
    assert coverage.p10 == pytest.approx(np.quantile([coverage.worst, 1, 1, 1], 0.1))
    assert coverage.families == 4
    assert coverage_by_family(MADE, forecasts(~outside))["family2"] == (coverage.worst, 25)


def test_small_families_do_not_count_alone():
    few = MADE[np.flatnonzero(MADE.about["family"] == "family1")[:19]]
    coverage = measure_coverage(few, Forecasts.from_times(few.time_ms))
    assert np.isnan(coverage.share)  # without intervals
    assert coverage_by_family(few, Forecasts.from_times(few.time_ms)) == {}


def test_errors_where_it_abstains_are_compared_with_the_others():
    abstains = np.arange(100) < 10
    time_ms = np.where(abstains, 1.3, 1.1) * MADE.time_ms
    abstention = measure_abstention(MADE, replace(forecasts(abstains, abstains), time_ms=time_ms))
    assert abstention.share == 0.1
    assert abstention.error_ratio == pytest.approx(0.3 / 0.1)
    assert np.isnan(measure_abstention(MADE, forecasts(abstains)).error_ratio)
