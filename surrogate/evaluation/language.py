"""The language regressor on the splits: alone, and stacked on the trees.

A fold trains a regressor, on a GPU if there is one, so folds go one after the other. What is
finished is kept in a folder, if there is one, and is not trained again. A stack's weights for a
fold are learned on the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from solkit.surrogate import ensemble
from solkit.surrogate.ensemble import RegressorSettings, Stack
from solkit.surrogate.evaluation.splits import split_into_folds
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import DEFAULTS, Forecasts, log2_target, row_weights


def forecast_left_out(
    table: Table,
    split: str,
    how: RegressorSettings,
    *,
    facts: Array | None = None,
    folds: Iterable[int] | None = None,
    folder: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Array:
    """Return `solkit.surrogate.ensemble.left_out` of a split.

    Args:
        table: configurations with their times, and the texts of their kernels.
        split: one of `solkit.surrogate.evaluation.splits.SPLITS`.
        how: regressors learn.
        facts: of the rows, to be guessed: `solkit.surrogate.language.training.facts_of`.
        folds: to be trained; all by default, none if it is empty. What the folder holds of others
            counts, too.
        folder: for what is finished.
        tell: receives what is done.

    Raises:
        InputError: there is no such split, or the folder is of another run.
    """
    place = None if folder is None else Path(folder)
    parts = dict(enumerate(split_into_folds(table, split)))
    chosen = {n: parts[n] for n in (parts if folds is None else folds)}
    means = ensemble.forecast_left_out(
        table, chosen, how, split, facts=facts, folder=place, tell=tell
    )
    return np.where(
        np.isnan(means), ensemble.load_finished_folds(table, parts, split, place), means
    )


def stack_forecasts(table: Table, split: str, trees: Forecasts, language: Array) -> Array:
    """Return log2(time / base) of each row by both, (rows,); NaN where one says nothing.

    Args:
        table: configurations with their times.
        split: of which both are forecasts.
        trees: of rows that they were not told of.
        language: likewise, from `forecast_left_out`.
    """
    forecasts = {"trees": np.log2(trees.time_ms / table.base_ms), "language": language}
    targets, weight = log2_target(table), row_weights(table, DEFAULTS.focus, DEFAULTS.crowd)
    both = ~np.isnan(forecasts["trees"]) & ~np.isnan(language)
    means = np.full(len(table), np.nan)
    for fold in split_into_folds(table, split):
        here = fold.test[both[fold.test]]
        others = np.setdiff1d(np.flatnonzero(both), fold.test)
        if len(here):
            taught = others if len(others) else here
            parts = {name: values[taught] for name, values in forecasts.items()}
            stack = Stack.fit(targets[taught], parts, weight[taught])
            means[here] = stack.mean({name: values[here] for name, values in forecasts.items()})
    return means
