"""The search over variants, on recorded pools."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("xgboost")
pytest.importorskip("polars")

import evolve_pools as bench

from solkit.core import Order, canonical
from solkit.surrogate.trees import Forecasts


def made_pool():
    """Four kernels of eight configurations each; the best one is the last of the last kernel."""
    times = 1.0 / (1.0 + np.arange(32.0))
    about = {
        "kernel_id": np.repeat([f"k{n}" for n in range(4)], 8),
        "params": np.array([canonical({"BLOCK": n}) for n in range(32)]),
        "implementation": np.repeat(["plain", "tiled", "split", "whole"], 8),
    }
    forecasts = Forecasts(times, times / 1.2, times * 1.2, np.ones(32), np.zeros(32, bool))
    return bench.Pool("made", range(32), SimpleNamespace(about=about, time_ms=times), forecasts)


def test_forecasts_that_are_right_need_few_measurements_and_a_random_order_more():
    pool = made_pool()
    counts = {order: [bench.needed(pool, order, seed) for seed in range(6)] for order in Order}
    assert max(counts[Order.SURROGATE]) <= 3  # the original, and two of the best kernel
    assert np.mean(counts[Order.RANDOM]) > 2 * np.mean(counts[Order.SURROGATE])
