"""A table to learn from: configurations with their features and their median times.

`table_of_stores` reads stores; `Table` keeps values as one array, so that training and evaluation
only slice it.
"""

from __future__ import annotations

import functools
import json
import math
import os
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.core import Depth, Device, Facts, KernelAnalysis, Launch, Value, canonical
from solkit.datasets.facts import (
    COMPILER,
    depth_reached,
    facts_from_json,
    facts_key,
    tools_made_with,
)
from solkit.datasets.version1 import LAUNCHES
from solkit.errors import InputError
from solkit.roofline.calibration import calibrated
from solkit.roofline.devices import find
from solkit.roofline.kernel.evaluate import described
from solkit.surrogate.compiled_features import modelled_ms
from solkit.surrogate.features import (
    ROUGH_GAP,
    Array,
    Candidates,
    Columns,
    Problem,
    feature_matrix,
    features_of_problems,
    rough_log2_factor,
)
from solkit.surrogate.launch_calls import DistinctPrograms, program_of_text

if TYPE_CHECKING:
    import polars

    from solkit.datasets.store import Store

_KEY = ("kernel_id", "problem_id", "params", "device")
_TOLD = (*_KEY, "family", "kind", "origin", "implementation", "triton_version")
_READ = (
    *("bound_ms", "limiter", "operations", "read_bytes", "write_bytes", "shape"),
    *("source_sha256", "torch_version", "cuda_version", "extra"),
)
_NUMBERS = ("values", "time_ms", "modelled_ms", "sol_ms", "repeat_log2")
_KNOWN, _PLACE = "known.", "place."
"""Prefixes in a table's file: the distinct values of a column of `Table.about`, and each row's."""
_RAN = ("live_launches", LAUNCHES)
"""Columns that hold the launches of a row without facts."""


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
            `params`, `device`, `family`, `kind`, `origin`, `implementation`, `triton_version`,
            `shape`.
        sources: texts of kernel files by `kernel_id`.
    """

    names: tuple[str, ...]
    values: Array
    time_ms: Array
    modelled_ms: Array
    sol_ms: Array
    about: Mapping[str, Array]
    repeat_log2: Array
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.time_ms)

    def __getitem__(self, rows: Array) -> Table:
        """Return the rows of an index or a mask."""
        return Table(
            self.names,
            self.values[rows],
            self.time_ms[rows],
            self.modelled_ms[rows],
            self.sol_ms[rows],
            {name: column[rows] for name, column in self.about.items()},
            self.repeat_log2[rows],
            self.sources,
        )

    @property
    def base_ms(self) -> Array:
        """Base of the target: the modelled time; if there is none, a rough one."""
        rough: Array = self.sol_ms
        if ROUGH_GAP in self.names:
            rough = rough * 2.0 ** rough_log2_factor(self.column(ROUGH_GAP))
        return np.where(np.isnan(self.modelled_ms), rough, self.modelled_ms)

    def row_keys(self, names: Sequence[str]) -> Array:
        """Return what each row has in some columns of `about`, as one text, (rows,)."""
        columns = (self.about[name] for name in names)
        return np.array(["\n".join(map(str, values)) for values in zip(*columns, strict=True)])

    def column(self, name: str) -> Array:
        """Return one feature, (rows,)."""
        return np.asarray(self.values[:, self.names.index(name)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file: making it anew from stores takes minutes.

        Raises:
            InputError: the file cannot be written.
        """
        texts = {"names": self.names, "sources": self.sources}
        arrays = {name: getattr(self, name) for name in _NUMBERS}
        for name, column in self.about.items():
            arrays[f"{_KNOWN}{name}"], arrays[f"{_PLACE}{name}"] = np.unique(
                column.astype(str), return_inverse=True
            )
        try:
            with Path(path).open("wb") as file:
                np.savez_compressed(file, texts=np.array(json.dumps(texts)), **arrays)
        except OSError as error:
            raise InputError(f"cannot write {os.fspath(path)}: {error.strerror}") from error

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Table:
        """Read one that `save` wrote.

        Raises:
            InputError: the file is missing, or holds no table.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                texts = json.loads(str(file["texts"]))
                columns = [name.removeprefix(_KNOWN) for name in file if name.startswith(_KNOWN)]
                about = {name: file[_KNOWN + name][file[_PLACE + name]] for name in columns}
                numbers = {name: file[name] for name in _NUMBERS}
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"{os.fspath(path)} holds no table: {error}") from error
        return Table(tuple(texts["names"]), about=about, sources=texts["sources"], **numbers)


@dataclass(frozen=True)
class Entry:
    """One candidate, which may have been timed.

    Attributes:
        problem: what it computes.
        device: where.
        kernels: its launches, as deeply as they were analysed.
        params: its tuning parameters.
        about: the texts of `Table.about`; ``params``, ``device`` and ``shape`` aside.
        time_ms: NaN if it was not timed.
        repeat_log2: log2 of its last repeat over the median of those before; NaN if there are none.
        source: the text of its file; empty if unknown.
    """

    problem: Problem
    device: Device
    kernels: Sequence[KernelAnalysis]
    params: Mapping[str, Value]
    about: Mapping[str, str]
    time_ms: float = math.nan
    repeat_log2: float = math.nan
    source: str = ""

    def text_of(self, name: str) -> str:
        """Return a column of `Table.about`."""
        if name == "device":
            return self.device.key
        if name == "shape":
            return canonical(self.problem.shape)
        return canonical(self.params) if name == "params" else str(self.about.get(name, ""))


def table_of_stores(
    stores: Sequence[Store], depth: Depth = Depth.COMPILED, to_learn: bool = False
) -> Table:
    """Return the correct configurations of some stores of which enough is known for a depth.

    Facts of any store serve rows of all: a set for an H100 and one for an H200 share them. The
    captured depth needs no facts: the launches that were recorded will do.

    Args:
        stores: of measured rows.
        depth: how much of the facts the features may use. CUDA C++ has nothing between captured
            and compiled: at the lowered depth its compiled facts count, as in
            `solkit.surrogate.ranking`.
        to_learn: leave out rows of Triton kernels whose program is not known, such as those of a
            package's kernels that nobody captured: half of their features are missing, and what is
            forecast has them. If no program at all is known, all rows count.
    """
    recorded = _LaunchRecords.from_stores(stores, depth)
    entries = [entry for store in stores for entry in _entries_of_store(store, recorded)]
    followed = [entry for entry in entries if _is_followed(entry)] if to_learn else []
    return table_of_entries(followed or entries)


def _is_followed(entry: Entry) -> bool:
    """Tell whether the programs of all of a candidate's Triton launches are known."""
    if depth_reached(entry.source, Depth.LOWERED) is Depth.COMPILED:  # CUDA C++
        return True
    launches = (kernel.launch for kernel in entry.kernels)
    return all(
        launch.library or launch.program or program_of_text(entry.source, launch.name)
        for launch in launches
    )


def table_of_entries(entries: Sequence[Entry]) -> Table:
    """Make a table of candidates; those of one problem and device together, else in their order."""
    groups: defaultdict[tuple[object, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        key = entry.text_of("problem_id"), entry.device.key, entry.problem.sol_ms
        groups[key].append(entry)
    ordered = [entry for members in groups.values() for entry in members]
    columns = _join_columns(features_of_problems(list(map(_feature_task, groups.values()))))
    names = tuple(sorted(columns))
    modelled = [modelled_ms(entry.kernels) for entry in ordered]
    return Table(
        names,
        feature_matrix(columns, names),
        np.array([entry.time_ms for entry in ordered], float),
        np.array([math.nan if value is None else value for value in modelled], float),
        np.array([entry.problem.sol_ms for entry in ordered], float),
        {name: np.array([entry.text_of(name) for entry in ordered]) for name in (*_TOLD, "shape")},
        np.array([entry.repeat_log2 for entry in ordered], float),
        {entry.text_of("kernel_id"): entry.source for entry in ordered},
    )


def _feature_task(entries: Sequence[Entry]) -> tuple[Problem, Device, Candidates]:
    candidates = Candidates(
        [entry.kernels for entry in entries], [entry.source for entry in entries]
    )
    return entries[0].problem, entries[0].device, candidates


def _join_columns(parts: Sequence[Columns]) -> Columns:
    """Join columns one after the other; NaN where a part lacks one."""
    sizes = [len(next(iter(part.values()))) for part in parts]
    names = dict.fromkeys(name for part in parts for name in part)
    ends = np.cumsum(sizes)
    joined: Columns = {name: np.full(sum(sizes), np.nan, np.float32) for name in names}
    for part, size, end in zip(parts, sizes, ends, strict=True):
        for name, column in part.items():
            joined[name][end - size : end] = column
    return joined


@dataclass(frozen=True)
class _LaunchRecords:
    """Records of some stores on launches, for one depth.

    Attributes:
        depth: how much of it may be used.
        facts: texts by key.
        operators: the launches of PyTorch's operators by kernel and problem, as facts tell them:
            rows without facts recorded only those of the kernel's own.
        captured: launches of captured facts by key; rows of several GPUs share them.
        programs: of these launches.
    """

    depth: Depth
    facts: Mapping[str, str]
    operators: dict[tuple[str, str], tuple[Launch, ...]] = field(default_factory=dict)
    captured: dict[str, tuple[Launch, ...]] = field(default_factory=dict)
    programs: DistinctPrograms = field(default_factory=DistinctPrograms)

    @staticmethod
    def from_stores(stores: Sequence[Store], depth: Depth) -> _LaunchRecords:
        """Read the facts of all stores."""
        texts = (store.facts().select("id", "text").collect().iter_rows() for store in stores)
        recorded = _LaunchRecords(depth, {name: text for rows in texts for name, text in rows})
        if depth is Depth.CAPTURED:
            for store in stores:
                for row in _configurations(store).iter_rows(named=True):
                    recorded._learn_operators(row)
        return recorded

    def _learn_operators(self, row: Mapping[str, Any]) -> None:
        text = self.facts.get(row["facts_id"] or "")
        cell = row["kernel_id"], row["problem_id"]
        if text and cell not in self.operators:
            self.operators[cell] = tuple(
                launch for launch in _launches_of_facts(text) if launch.library
            )

    def launches_of_row(
        self, row: Mapping[str, Any], source: str, gpu: Device
    ) -> list[KernelAnalysis]:
        """Return the launches of a row on its GPU; empty if nothing is known of them."""
        compiled = self.facts.get(row["facts_id"] or "")
        recorded = self._captured_launches(_key_at_depth(row, source, gpu, Depth.CAPTURED))
        if self.depth is Depth.CAPTURED:
            bare = tuple(_launches_of_facts(compiled)) if compiled else self._own_launches(row)
            launches = recorded or bare
            return [KernelAnalysis(Facts(launch, Depth.CAPTURED)) for launch in launches]
        if depth_reached(source, self.depth) is Depth.LOWERED:
            compiled = self.facts.get(_key_at_depth(row, source, gpu, Depth.LOWERED))
        if not compiled:
            return []
        all_facts = [_with_record(facts, recorded) for facts in facts_from_json(compiled)]
        return [described(facts, gpu) for facts in all_facts]

    def _captured_launches(self, key: str) -> tuple[Launch, ...]:
        launches = self.captured.get(key)
        if launches is None:
            text = self.facts.get(key)
            facts = facts_from_json(text) if text else ()
            launches = tuple(self._with_shared_program(fact.launch) for fact in facts)
            self.captured[key] = launches
        return launches

    def _with_shared_program(self, launch: Launch) -> Launch:
        if launch.program is None:
            return launch
        return replace(launch, program=self.programs.shared(launch.program))

    def _own_launches(self, row: Mapping[str, Any]) -> tuple[Launch, ...]:
        own = tuple(_launches_of_row(row))
        return own and own + self.operators.get((row["kernel_id"], row["problem_id"]), ())


def _entries_of_store(store: Store, recorded: _LaunchRecords) -> Iterator[Entry]:
    sources = dict(store.sources().select("sha256", "text").collect().iter_rows())
    for row in _configurations(store).iter_rows(named=True):
        gpu = _calibrated_device(row["device"])
        source = sources.get(row["source_sha256"], "")
        kernels = recorded.launches_of_row(row, source, gpu)
        if kernels:
            params, shape, times = json.loads(row["params"]), json.loads(row["shape"]), row["times"]
            yield Entry(
                _problem_of_row(row, shape),
                gpu,
                kernels,
                params,
                row,
                median(times),
                math.log2(times[-1] / median(times[:-1])) if len(times) > 1 else math.nan,
                source,
            )


def _with_record(facts: Facts, recorded: Sequence[Launch]) -> Facts:
    """Return facts with the arguments and the program that the captured depth has of the launch."""
    same = next((launch for launch in recorded if _is_same_launch(launch, facts.launch)), None)
    if same is None:
        return facts
    launch = replace(facts.launch, arguments=same.arguments, program=same.program)
    return replace(facts, launch=launch)


def _is_same_launch(one: Launch, other: Launch) -> bool:
    """Tell whether launches are the same but for warps, of which a compiler may add some."""
    return (one.name, one.grid, one.constants) == (other.name, other.grid, other.constants)


def _key_at_depth(row: Mapping[str, Any], source: str, gpu: Device, depth: Depth) -> str:
    return facts_key(
        row["kernel_id"],
        json.loads(row["params"]),
        json.loads(row["shape"]),
        gpu.compute_capability,
        gpu.sm_count,
        row["triton_version"],
        tools_made_with(
            source,
            row["torch_version"],
            row["cuda_version"],
            _parse_mapping(row["extra"]).get(COMPILER),
        ),
        depth,
    )


def _launches_of_facts(text: str) -> Iterator[Launch]:
    """Yield the launches of facts, without the rest of them."""
    for record in json.loads(text)["launches"]:
        launch = record["launch"]
        yield Launch(**(launch | {"grid": tuple(launch["grid"])}))


def _launches_of_row(row: Mapping[str, Any]) -> Iterator[Launch]:
    """Yield launches that a row without facts recorded; none if a number of warps is missing."""
    live = row["live_launches"]
    launches = json.loads(live) if live else row[LAUNCHES] or ()
    if any(launch["num_warps"] is None for launch in launches):
        return
    for launch in launches:
        yield Launch(
            launch["name"],
            tuple(launch["grid"]),
            launch["num_warps"],
            launch["num_stages"] or 0,
            launch["num_ctas"] or 1,
            _parse_mapping(launch["constants"]),
            _parse_mapping(launch["signature"]),
            launch.get("count") or 1,
        )


def _parse_mapping(value: Any) -> Mapping[str, Any]:
    return _load_mapping(value) if isinstance(value, str) else value or {}


@functools.lru_cache(1 << 16)
def _load_mapping(text: str) -> Mapping[str, Any]:
    mapping: Mapping[str, Any] = json.loads(text)
    return mapping


def _configurations(store: Store) -> polars.DataFrame:
    """Return one row a configuration, with the median time of its repeats."""
    import polars as pl

    from solkit.datasets.store import RIGHT

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
            pl.col("facts_id", *_RAN).drop_nulls().first(),
        )
    )
    return medians.sort(_KEY).collect()


def _problem_of_row(row: Mapping[str, Any], shape: Mapping[str, Value]) -> Problem:
    return Problem(
        row["bound_ms"],
        row["limiter"],
        json.loads(row["operations"]),
        row["read_bytes"] or 0,
        row["write_bytes"] or 0,
        shape,
    )


@functools.cache
def _calibrated_device(device: str) -> Device:
    return calibrated(find(device))
