"""Pools: the candidates among which a model must find the fastest.

A pool has 8 to 48 correct configurations, drawn by seed; 20 pools where there are more than 48. It
counts if its 75th percentile is over 1.05 times its best: elsewhere nothing is to be won.
Two kinds:

- *problem*: all kernels of a problem mixed, on one GPU by one Triton;
- *kernel*: one kernel at one shape, which is what an autotuner faces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

_PLACE = ("device", "triton_version")
KINDS = {"problem": ("problem_id", *_PLACE), "kernel": ("kernel_id", "problem_id", *_PLACE)}
"""Columns that the candidates of a pool share, by the kind of pool."""

_LEAST, _MOST, _DRAWS = 8, 48, 20
_SPREAD = 1.05


@dataclass(frozen=True)
class Pool:
    """Some candidates of one group.

    Attributes:
        group: what they share, as one text.
        rows: indices of a table.
    """

    group: str
    rows: Array


def draw_pools(table: Table, kind: str, rows: Array, seed: int = 0) -> Iterator[Pool]:
    """Yield the pools of a kind among some rows of a table.

    Args:
        table: with the times.
        kind: a key of `KINDS`.
        rows: indices that may be drawn.
        seed: of the draws.
    """
    if not len(rows):
        return
    columns = [table.about[name][rows] for name in KINDS[kind]]
    names = np.array([" ".join(parts) for parts in zip(*columns, strict=True)])
    order = np.argsort(names, kind="stable")
    starts = np.flatnonzero(np.r_[True, names[order][1:] != names[order][:-1]])
    for members in np.split(rows[order], starts[1:]):
        group = " ".join(str(table.about[name][members[0]]) for name in KINDS[kind])
        for drawn in _draw_from_group(members, group, seed):
            times_ms = table.time_ms[drawn]
            if np.quantile(times_ms, 0.75) > _SPREAD * np.min(times_ms):
                yield Pool(group, drawn)


def _draw_from_group(rows: Array, group: str, seed: int) -> Iterator[Array]:
    if len(rows) < _LEAST:
        return
    if len(rows) <= _MOST:
        yield rows
        return
    key = int.from_bytes(hashlib.sha256(f"{seed} {group}".encode()).digest()[:8], "big")
    random = np.random.default_rng(key)
    for _ in range(_DRAWS):
        yield random.choice(rows, _MOST, replace=False)
