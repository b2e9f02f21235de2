"""Forecasters that can be evaluated: the surrogate's trees, and what they must beat.

A forecaster learns from the rows of a fold and forecasts the times of others. It never sees the
times of the rows that it is asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import DEFAULTS, Forecasts, Settings, Trees

__all__ = ["BASELINES", "Forecaster", "kernel_model", "nearest", "on_knobs", "random", "trees"]

Forecaster = Callable[[Table, Table], Forecasts]
"""From the rows to learn from and the rows to forecast to the times of the latter."""

_KNOBS = ("device", "model", "machine", "requests")


def trees(settings: Settings = DEFAULTS, seed: int = 0) -> Forecaster:
    """Trees on what the kernel model leaves unexplained."""

    def forecast(known: Table, asked: Table) -> Forecasts:
        return Trees.fit(known, settings, seed).forecast(asked)

    return forecast


def on_knobs(settings: Settings = DEFAULTS, seed: int = 0) -> Forecaster:
    """Trees on parameters and geometry alone, as other tuners have them."""
    bare = replace(settings, leave_out=_KNOBS)
    grown = trees(bare, seed)
    return lambda known, asked: grown(_unmodelled(known), _unmodelled(asked))


def _unmodelled(table: Table) -> Table:
    return replace(table, modelled_ms=np.full(len(table), np.nan))


def kernel_model(_: Table, asked: Table) -> Forecasts:
    """The modelled time; nothing is learned."""
    return Forecasts.of(np.where(np.isnan(asked.modelled_ms), asked.sol_ms, asked.modelled_ms))


def random(known: Table, asked: Table) -> Forecasts:
    """The typical gap, times noise that has nothing to do with the candidate."""
    gaps = np.log2(known.time_ms / known.sol_ms)
    drawn = np.random.default_rng(0).normal(np.median(gaps), 1e-6, len(asked))
    return Forecasts.of(asked.sol_ms * 2.0**drawn)


def nearest(known: Table, asked: Table) -> Forecasts:
    """The gap of the nearest row in standardised features; what is unknown is average."""
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]

    names = [name for name in known.names if not name.startswith("params.")]
    columns = [known.names.index(name) for name in names]
    mean = np.nanmean(known.values[:, columns], axis=0)
    spread = np.nanstd(known.values[:, columns], axis=0) + 1e-6

    def scaled(table: Table) -> Array:
        return np.asarray(np.nan_to_num((table.values[:, columns] - mean) / spread))

    _, place = cKDTree(scaled(known)).query(scaled(asked))
    return Forecasts.of(asked.sol_ms * (known.time_ms / known.sol_ms)[place])


BASELINES: dict[str, Forecaster] = {
    "kernel_model": kernel_model,
    "knobs": on_knobs(),
    "nearest": nearest,
    "random": random,
}
"""What is shown beside a model."""
