"""A table to learn from: configurations with their features and their median times.

`table_of` reads stores; `Table` keeps values as one array, so that training and evaluation only
slice it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.core import Depth, Device, Facts
from solkit.datasets.facts import facts_from_json
from solkit.datasets.store import RIGHT, Store
from solkit.roofline.calibration import calibrated
from solkit.roofline.devices import find
from solkit.roofline.kernel.described import described
from solkit.surrogate.features import Array, Features, Problem, features, matrix, modelled_ms

if TYPE_CHECKING:
    import polars

__all__ = ["Table", "table_of"]

_KEY = ("kernel_id", "problem_id", "params", "device")
_TOLD = (*_KEY, "family", "kind", "origin", "implementation", "triton_version")
_READ = ("limiter", "operations", "read_bytes", "write_bytes", "shape", "dtypes", "facts_id")


@dataclass(frozen=True)
class Table:
    """Configurations that were timed, one a row.

    Attributes:
        names: of the features.
        values: (rows, names), float32; NaN where unknown.
        time_ms: (rows,), the median over repeats.
        modelled_ms: (rows,), the kernel model's; NaN if it has none.
        sol_ms: (rows,), the roofline.
        about: columns of `Outcome`, by name, a value for each row: `kernel_id`, `problem_id`,
            `params`, `device`, `family`, `kind`, `origin`, `implementation`, `triton_version`.
    """

    names: tuple[str, ...]
    values: Array
    time_ms: Array
    modelled_ms: Array
    sol_ms: Array
    about: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.time_ms)

    def __getitem__(self, rows: Array) -> Table:
        """The rows of an index or a mask."""
        return Table(
            self.names,
            self.values[rows],
            self.time_ms[rows],
            self.modelled_ms[rows],
            self.sol_ms[rows],
            {name: column[rows] for name, column in self.about.items()},
        )

    def column(self, name: str) -> Array:
        """One feature, (rows,)."""
        return np.asarray(self.values[:, self.names.index(name)])


def table_of(stores: Iterable[Store], depth: Depth = Depth.COMPILED) -> Table:
    """The correct configurations of some stores that have facts.

    Args:
        stores: of measured rows.
        depth: how much of their facts the features may use.
    """
    rows = [row for store in stores for row in _rows(store, depth)]
    names = sorted({name for _, found in rows for name in found})
    told = [row for row, _ in rows]

    def column(name: str) -> Array:
        return np.array([row[name] for row in told], float)

    return Table(
        tuple(names),
        matrix((found for _, found in rows), names),
        column("time_ms"),
        column("modelled_ms"),
        column("bound_ms"),
        {name: np.array([row[name] for row in told]) for name in _TOLD},
    )


def _rows(store: Store, depth: Depth) -> Iterator[tuple[dict[str, Any], Features]]:
    texts = dict(store.facts().select("id", "text").collect().iter_rows())
    for row in _configurations(store).iter_rows(named=True):
        if row["facts_id"] not in texts:
            continue
        gpu = _gpu(row["device"])
        launches = [_at(depth, facts) for facts in facts_from_json(texts[row["facts_id"]])]
        kernels = [described(facts, gpu) for facts in launches]
        modelled = modelled_ms(kernels)
        row["modelled_ms"] = np.nan if modelled is None else modelled
        yield row, features(_problem(row), gpu, kernels, json.loads(row["params"]))


def _configurations(store: Store) -> polars.DataFrame:
    """One row a configuration, with the median time of its repeats."""
    import polars as pl

    rows = store.scan().filter(
        pl.col("verdict").is_in(RIGHT),
        pl.col("time_ms").is_not_null(),
        pl.col("bound_ms").is_not_null(),
        pl.col("facts_id").is_not_null(),
    )
    rest = [name for name in (*_TOLD, *_READ, "bound_ms") if name not in _KEY]
    medians = rows.group_by(_KEY).agg(pl.col("time_ms").median(), pl.col(rest).first())
    return medians.sort(_KEY).collect()


def _problem(row: Mapping[str, Any]) -> Problem:
    return Problem(
        row["bound_ms"],
        row["limiter"],
        json.loads(row["operations"]),
        row["read_bytes"] or 0,
        row["write_bytes"] or 0,
        json.loads(row["shape"]),
        row["dtypes"],
    )


@functools.cache
def _gpu(device: str) -> Device:
    return calibrated(find(device))


def _at(depth: Depth, facts: Facts) -> Facts:
    """What a shallower depth knows of these facts."""
    return facts if depth is not Depth.CAPTURED else Facts(facts.launch, Depth.CAPTURED)
