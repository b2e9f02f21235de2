"""Numbers as the network reads them: a row's features, and its named values one by one.

A feature is placed among those of the rows that were learned from, so that all are of one scale. A
named value (a tuning parameter, a size of the problem) is known by where its name stands in the
text, and by what it is: its logarithm, what divides it, whether it is a number, a boolean or a
word.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.core import Value
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import columns_of

MOST_NAMED = 20
"""NamedValues values of a row that are read."""

_LEVELS = 64  # of a feature's values that are remembered
_POWERS = 8  # of two that may divide a number
_WAVES = 4  # frequencies at which a logarithm is shown
_REACH = 2.0  # standard deviations that a feature may be off

FACTS = (
    *("model.gap", "model.issue", "model.latency", "model.l2", "model.shared", "model.tensor"),
    *("machine.registers", "machine.spills", "machine.shared", "machine.occupancy"),
    *("machine.instructions", "machine.in_loops", "requests.l2_traffic", "requests.dram_traffic"),
    *("requests.load_efficiency", "requests.store_efficiency", "requests.iterations"),
    *("requests.chain_cycles", "requests.barriers", "requests.bank_conflicts"),
    "requests.instructions",
)
"""Features of the compiled depth that a model of a shallower depth learns to guess."""

VALUE_SIZE = 6 + _POWERS + 2 * _WAVES
"""Numbers that tell a named value."""


@dataclass(frozen=True)
class Scale:
    """Place of a value among those that were learned from.

    Attributes:
        names: of the features.
        levels: (names, `_LEVELS`), quantiles.
        mean, spread: (names,) each.
    """

    names: tuple[str, ...]
    levels: Array
    mean: Array
    spread: Array

    @staticmethod
    def from_table(table: Table, names: Sequence[str]) -> Scale:
        """Learn the scale from a table's rows."""
        values = columns_of(table, names).astype(float)
        levels = np.zeros((len(names), _LEVELS))
        mean, spread = np.zeros(len(names)), np.ones(len(names))
        for place in range(len(names)):
            present = values[:, place]
            present = present[~np.isnan(present)]
            if len(present):
                levels[place] = np.quantile(present, np.linspace(0, 1, _LEVELS))
                mean[place], spread[place] = present.mean(), present.std() + 1e-6
        return Scale(tuple(names), levels, mean, spread)

    def scale_features(self, table: Table) -> tuple[Array, Array]:
        """Return values from -2 to 2, 0 where unknown, and which are unknown, (rows, names) each.

        Half is the rank among the values that were learned from, half the distance from their mean.
        """
        values = columns_of(table, self.names)
        unknown = np.isnan(values)
        scaled = np.zeros(values.shape, np.float32)
        for place in range(len(self.names)):
            levels = np.unique(self.levels[place])
            column = values[:, place]
            if len(levels) > 1:
                scaled[:, place] = np.interp(column, levels, np.linspace(-0.5, 0.5, len(levels)))
            off = (column - self.mean[place]) / (2 * self.spread[place])
            scaled[:, place] += 0.5 * np.clip(off, -_REACH, _REACH)
        scaled[unknown] = 0.0
        return scaled, unknown


@dataclass(frozen=True)
class NamedValues:
    """The named values of one row.

    Attributes:
        names: of the values.
        values: (names, `VALUE_SIZE`).
        words: the value where it is a word; empty elsewhere.
        sizes: which are sizes of the problem rather than parameters, (names,).
    """

    names: tuple[str, ...]
    values: Array
    words: tuple[str, ...]
    sizes: Array


@functools.lru_cache(1 << 17)
def named_values(params: str, shape: str) -> NamedValues:
    """Return the named values of parameters and a shape, both as JSON."""
    items = [*_load_mapping(params).items()], [*_load_mapping(shape).items()]
    pairs = [*items[0], *items[1]][:MOST_NAMED]
    sizes = [False] * len(items[0]) + [True] * len(items[1])
    return NamedValues(
        tuple(name for name, _ in pairs),
        np.stack([encode_value(value) for _, value in pairs])
        if pairs
        else np.zeros((0, VALUE_SIZE), np.float32),
        tuple(value if isinstance(value, str) else "" for _, value in pairs),
        np.array(sizes[:MOST_NAMED], bool),
    )


def _load_mapping(text: str) -> Mapping[str, Any]:
    return json.loads(text) if text else {}


@functools.lru_cache(1 << 14)
def _encode_value(value: Value, kind: str) -> Array:
    del kind  # 1 and True are equal, and not the same
    encoding = np.zeros(VALUE_SIZE, np.float32)
    if isinstance(value, bool):
        encoding[0], encoding[1] = 1.0, float(value)
    elif isinstance(value, str):
        encoding[2] = 1.0
    elif isinstance(value, int | float) and math.isfinite(value):
        encoding[3] = 1.0
        encoding[4] = float(value == 0)
        size = math.log2(abs(value)) if value else 0.0
        encoding[5] = size / 8
        if isinstance(value, int) and value:
            encoding[6 : 6 + _POWERS] = [value % 2 ** (n + 1) == 0 for n in range(_POWERS)]
        angles = size * np.pi / 2.0 ** np.arange(_WAVES)
        encoding[6 + _POWERS :] = np.r_[np.sin(angles), np.cos(angles)]
    return encoding


def encode_value(value: Value) -> Array:
    """Return a value as `VALUE_SIZE` numbers."""
    return _encode_value(value, type(value).__name__)
