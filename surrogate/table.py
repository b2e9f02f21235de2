"""A table to learn from: configurations with their features and their median times.

`table_of` reads stores; `Table` keeps values as one array, so that training and evaluation only
slice it.
"""

from __future__ import annotations

import functools
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.core import Depth, Device, Facts, KernelAnalysis, Value, canonical
from solkit.datasets.facts import facts_from_json, facts_key, made_with
from solkit.datasets.store import RIGHT, Store
from solkit.roofline.calibration import calibrated
from solkit.roofline.devices import find
from solkit.roofline.kernel.described import described
from solkit.surrogate.features import (
    Array,
    Candidates,
    Columns,
    Problem,
    features,
    matrix,
    modelled_ms,
)

if TYPE_CHECKING:
    import polars

__all__ = ["Entry", "Table", "table_of", "tabled"]

_KEY = ("kernel_id", "problem_id", "params", "device")
_TOLD = (*_KEY, "family", "kind", "origin", "implementation", "triton_version")
_READ = (
    *("bound_ms", "limiter", "operations", "read_bytes", "write_bytes", "shape"),
    *("source_sha256", "torch_version", "cuda_version"),
)


@dataclass(frozen=True)
class Table:
    """Configurations that were timed, one a row.

    Attributes:
        names: of the features.
        values: (rows, names), float32; NaN where unknown.
        time_ms: (rows,), the median over repeats.
        modelled_ms: (rows,), the kernel model's; NaN if it has none.
        sol_ms: (rows,), the roofline.
        repeat_log2: (rows,), log2 of the last repeat over the median of the others; NaN if timed
            once.
        about: columns of `Outcome`, by name, a value for each row: `kernel_id`, `problem_id`,
            `params`, `device`, `family`, `kind`, `origin`, `implementation`, `triton_version`.
    """

    names: tuple[str, ...]
    values: Array
    time_ms: Array
    modelled_ms: Array
    sol_ms: Array
    about: Mapping[str, Array]
    repeat_log2: Array

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
            self.repeat_log2[rows],
        )

    @property
    def base_ms(self) -> Array:
        """What the target is relative to: the modelled time, or the roofline if there is none."""
        return np.where(np.isnan(self.modelled_ms), self.sol_ms, self.modelled_ms)

    def column(self, name: str) -> Array:
        """One feature, (rows,)."""
        return np.asarray(self.values[:, self.names.index(name)])


@dataclass(frozen=True)
class Entry:
    """One candidate, which may have been timed.

    Attributes:
        problem: what it computes.
        device: where.
        kernels: its launches, as deeply as they were analysed.
        params: its tuning parameters.
        about: the texts of `Table.about`, ``params`` and ``device`` aside.
        time_ms: NaN if it was not timed.
        repeat_log2: log2 of its last repeat over the median of those before; NaN if there are none.
    """

    problem: Problem
    device: Device
    kernels: Sequence[KernelAnalysis]
    params: Mapping[str, Value]
    about: Mapping[str, str]
    time_ms: float = math.nan
    repeat_log2: float = math.nan

    def told(self, name: str) -> str:
        """A column of `Table.about`."""
        if name == "device":
            return self.device.key
        return canonical(self.params) if name == "params" else str(self.about.get(name, ""))


def table_of(stores: Sequence[Store], depth: Depth = Depth.COMPILED) -> Table:
    """The correct configurations of some stores that have facts.

    Facts of any store serve rows of all: a set for an H100 and one for an H200 share them.

    Args:
        stores: of measured rows.
        depth: how much of the facts the features may use. CUDA C++ has no lowered facts: it counts
            as captured there.
    """
    texts = {name: text for store in stores for name, text in _facts(store)}
    return tabled([entry for store in stores for entry in _entries(store, texts, depth)])


def tabled(entries: Sequence[Entry]) -> Table:
    """Candidates as a table; those of one problem and device are together, else in their order."""
    groups: defaultdict[tuple[object, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        key = entry.told("problem_id"), entry.device.key, entry.problem.sol_ms
        groups[key].append(entry)
    ordered = [entry for those in groups.values() for entry in those]
    columns = _joined([_columns(those) for those in groups.values()])
    names = tuple(sorted(columns))
    modelled = [modelled_ms(entry.kernels) for entry in ordered]
    return Table(
        names,
        matrix(columns, names),
        np.array([entry.time_ms for entry in ordered], float),
        np.array([math.nan if each is None else each for each in modelled], float),
        np.array([entry.problem.sol_ms for entry in ordered], float),
        {name: np.array([entry.told(name) for entry in ordered]) for name in _TOLD},
        np.array([entry.repeat_log2 for entry in ordered], float),
    )


def _columns(entries: Sequence[Entry]) -> Columns:
    candidates = Candidates([each.kernels for each in entries], [each.params for each in entries])
    return features(entries[0].problem, entries[0].device, candidates)


def _joined(parts: Sequence[Columns]) -> Columns:
    """Columns one after the other; NaN where a part lacks one."""
    sizes = [len(next(iter(part.values()))) for part in parts]
    names = dict.fromkeys(name for part in parts for name in part)
    ends = np.cumsum(sizes)
    found: Columns = {name: np.full(sum(sizes), np.nan, np.float32) for name in names}
    for part, size, end in zip(parts, sizes, ends, strict=True):
        for name, column in part.items():
            found[name][end - size : end] = column
    return found


def _facts(store: Store) -> Iterator[tuple[str, str]]:
    return store.facts().select("id", "text").collect().iter_rows()


def _entries(store: Store, texts: Mapping[str, str], depth: Depth) -> Iterator[Entry]:
    sources = dict(store.sources().select("sha256", "text").collect().iter_rows())
    for row in _configurations(store).iter_rows(named=True):
        gpu = _gpu(row["device"])
        params, shape = json.loads(row["params"]), json.loads(row["shape"])
        source = sources.get(row["source_sha256"], "")
        launches = _launches(row, source, params, shape, gpu, texts, depth)
        if launches:
            kernels = [described(each, gpu) for each in launches]
            times = row["times"]
            yield Entry(
                _problem(row, shape), gpu, kernels, params, row, median(times), _repeat(times)
            )


def _launches(
    row: Mapping[str, Any],
    source: str,
    params: Mapping[str, Value],
    shape: Mapping[str, Value],
    gpu: Device,
    texts: Mapping[str, str],
    depth: Depth,
) -> tuple[Facts, ...]:
    """The facts of a row at a depth; empty if there are none."""
    compiled = texts.get(row["facts_id"] or "")
    tools = made_with(source, row["torch_version"], row["cuda_version"])
    of_row = (row["kernel_id"], params, shape, gpu.compute_capability, gpu.sm_count)
    key = facts_key(*of_row, row["triton_version"], tools, Depth.LOWERED)
    lowered = texts.get(key) if depth is not Depth.COMPILED or compiled is None else None
    if depth is Depth.COMPILED:
        return facts_from_json(compiled) if compiled else ()
    if depth is Depth.LOWERED and lowered:
        return facts_from_json(lowered)
    told = compiled or lowered
    if told and (depth is Depth.CAPTURED or "__global__" in source):
        return tuple(Facts(each.launch, Depth.CAPTURED) for each in facts_from_json(told))
    return ()


def _configurations(store: Store) -> polars.DataFrame:
    """One row a configuration, with the median time of its repeats."""
    import polars as pl

    rows = store.scan().filter(
        pl.col("verdict").is_in(RIGHT),
        pl.col("time_ms").is_not_null(),
        pl.col("bound_ms").is_not_null(),
    )
    rest = [name for name in (*_TOLD, *_READ) if name not in _KEY]
    medians = (
        rows.sort("created")
        .group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("time_ms").alias("times"),
            pl.col(rest).first(),
            pl.col("facts_id").drop_nulls().first(),
        )
    )
    return medians.sort(_KEY).collect()


def _repeat(times: Sequence[float]) -> float:
    return math.log2(times[-1] / median(times[:-1])) if len(times) > 1 else math.nan


def _problem(row: Mapping[str, Any], shape: Mapping[str, Value]) -> Problem:
    return Problem(
        row["bound_ms"],
        row["limiter"],
        json.loads(row["operations"]),
        row["read_bytes"] or 0,
        row["write_bytes"] or 0,
        shape,
    )


@functools.cache
def _gpu(device: str) -> Device:
    return calibrated(find(device))
