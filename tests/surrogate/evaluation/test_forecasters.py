"""Forecasters of the evaluation, on tables whose law is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from synthetic import forecast_left_out, on_both, table

from solkit.surrogate.evaluation import forecasters
from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
from solkit.surrogate.evaluation.forecasters import (
    forecast_by_lookup,
    forecast_by_nearest,
    forecast_noise_ceiling,
    transfer_forecaster,
)
from solkit.surrogate.table import Table
from solkit.surrogate.trees import Settings

QUICK = Settings(members=1, rounds=40, leaves=8, rate=0.2, columns=1.0)


def test_lookup_takes_the_time_elsewhere_as_it_is():
    both = on_both(table(400), ratio=0.5)
    result = forecast_left_out(both, "transfer", forecast_by_lookup)
    first = both.about["device"] == "h100-sxm"
    np.testing.assert_allclose(result.time_ms[first], both.time_ms[first] / 2)
    np.testing.assert_allclose(result.time_ms[~first], both.time_ms[~first] * 2)


@pytest.mark.slow
def test_transfer_learns_what_the_modelled_ratio_misses():
    both = on_both(table(800), ratio=0.8, noise=0.01)  # the model sees no difference
    forecasts = evaluate_forecasts(
        both, forecast_left_out(both, "transfer", transfer_forecaster(QUICK))
    )
    looked_up = evaluate_forecasts(both, forecast_left_out(both, "transfer", forecast_by_lookup))
    assert forecasts.time_error < 0.03 < looked_up.time_error


def test_the_nearest_row_lends_its_gap(monkeypatch):
    result = table(60)
    gaps = result.time_ms / result.sol_ms
    spread = result.values.std(axis=0)
    apart = (((result.values[:, None] - result.values[:50]) / spread) ** 2).sum(axis=2)
    forecast = forecast_by_nearest(result[np.arange(50)], result[np.arange(50, 60)])
    places = [int(np.argmin(apart[row])) for row in range(50, 60)]
    right = np.isclose(forecast.time_ms / result.sol_ms[50:], gaps[places])
    assert right.sum() >= 9  # the spread of 50 rows is not quite that of 60
    monkeypatch.setattr(forecasters, "_MOST_KNOWN", 5)
    few = forecast_by_nearest(result[np.arange(50)], result).time_ms / result.sol_ms
    assert len(np.unique(np.round(few, 9))) <= 5


def test_the_ceiling_is_as_noisy_as_repeats():
    result = table(400)
    sure = replace(result, repeat_log2=np.where(np.isnan(result.repeat_log2), np.nan, 0.25))
    np.testing.assert_allclose(forecast_noise_ceiling(sure, sure).time_ms, sure.time_ms * 2**0.25)
    never = replace(result, repeat_log2=np.full(400, np.nan))
    assert np.isnan(forecast_noise_ceiling(never, never).time_ms).all()


def test_a_process_on_knobs_learns_from_the_first_rows_of_each_family_alone():
    """A gap that doubles with a parameter: rows between two measured ones lie between them."""
    number = 40
    knob = np.linspace(0, 1, number)
    params = np.array([json.dumps({"B": size}) for size in 2.0**knob])
    rows = Table(
        (), np.empty((number, 0), np.float32), 2.0**knob, np.full(number, np.nan),
        np.ones(number), {"family": np.full(number, "f"), "params": params},
        np.full(number, np.nan),
    )  # fmt: skip
    result = forecasters.OnKnobs(10)(rows, rows).time_ms
    assert np.isnan(result).sum() == 10
    known_value = ~np.isnan(result)
    assert np.abs(result[known_value] / rows.time_ms[known_value] - 1).max() < 0.15  # at the edge
    other = replace(
        rows, time_ms=np.where(known_value, 99.0, rows.time_ms)
    )  # which it must not see
    assert np.array_equal(
        forecasters.OnKnobs(10)(other, other).time_ms[known_value], result[known_value]
    )
