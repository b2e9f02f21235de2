"""What measured sets contain, and whether that is enough to learn from.

    python bench/dataset.py [--spaces] [h100 h200 | STORE ...]

For each set: valid configurations, failures, families and problems, how many problems have several
implementations, how dense the good region of each problem is and whether it was found without the
search near the best, how well repeats agree, rows under their hard bound, rows whose time includes
gaps that a stalled host left between launches, megabytes, seconds to load. For several sets: the
configurations that all have in common.

A problem is *flat* if half of its configurations are within a tenth of the best: there is nothing
to find. Some problems have fewer than eight good configurations although all valid ones were
measured: `--spaces` counts them (minutes, as each kernel lists its valid configurations). The exit
code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from solkit.collect.config_sampler import ENOUGH_NEAR, NEAR
from solkit.core import CONFIGURATION, Device
from solkit.datasets.card import compare_repeats
from solkit.datasets.kernels import select_kernels
from solkit.datasets.store import RIGHT, Store, configurations, shipped
from solkit.errors import SolkitError
from solkit.measure.benches.trusted.precompile import Ahead
from solkit.measure.benches.trusted.timing import GAP_MS
from solkit.roofline import devices

UNSEARCHED = ("default", "random", "latin_hypercube", "exhaustive")

_MB = 1e6


@dataclass(frozen=True)
class Target:
    """What a figure should reach: at least, or at most."""

    value: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'at most' if self.at_most else 'at least'} {self.value:g}"

    def met(self, figure: float) -> bool:
        """Tell whether it does."""
        return figure <= self.value if self.at_most else figure >= self.value


TARGETS: Mapping[str, Target] = {
    "own families with 6 problems": Target(35),
    "problems of 4 implementations": Target(60),
    "Inductor kernels": Target(300),
    "problems, not flat, with 8 near the best": Target(1.0),
    "such, one of them found without search": Target(1.0),
    "repeats: median difference": Target(0.01, at_most=True),
    "repeats: 95th percentile": Target(0.04, at_most=True),
    "rows under their hard bound": Target(0, at_most=True),
    "largest file, MB": Target(15, at_most=True),
    "seconds to load and filter": Target(1.0, at_most=True),
}
VALID = {"h100": Target(80_000), "h200": Target(40_000)}
IN_COMMON = Target(25_000)
ALL_MB = Target(45, at_most=True)


def figures(store: Store) -> Iterator[tuple[str, float]]:
    """Each figure of a set with its name."""
    rows = store.scan()
    right = rows.filter(pl.col("verdict").is_in(RIGHT), pl.col("time_ms").is_not_null())
    best = configurations(right).collect()
    yield "valid configurations", len(best)
    yield "valid rows", _count(right)
    yield "rows that failed", _count(rows.filter(~pl.col("verdict").is_in(RIGHT)))
    zoo = best.filter(pl.col("origin") == "zoo")
    families = zoo.group_by("family").agg(pl.col("problem_id").n_unique())
    yield "own families with 6 problems", int((families["problem_id"] >= 6).sum())
    yield "kinds", best["kind"].n_unique()
    yield "problems", best["problem_id"].n_unique()
    implementations = best.group_by("problem_id").agg(pl.col("kernel_id").n_unique())
    yield "problems of 4 implementations", int((implementations["kernel_id"] >= 4).sum())
    yield "kernels", best["kernel_id"].n_unique()
    inductor = best.filter(pl.col("origin") == "inductor")
    yield "Inductor kernels", inductor["kernel_id"].n_unique()
    yield from density(right)
    results = compare_repeats(rows)
    yield "repeated configurations", results.configurations
    if results.median is not None and results.p95 is not None:
        yield "repeats: median difference", results.median
        yield "repeats: 95th percentile", results.p95
    yield "rows under their hard bound", _count(rows.filter(_under_bound()))
    yield "rows with gaps between launches", _count(_launched(store, right).filter(_HAS_GAPS))
    files = [path.stat().st_size for path in store.folder.rglob("*.parquet")]
    yield "MB", sum(files) / _MB
    yield "largest file, MB", max(files, default=0) / _MB
    yield "seconds to load and filter", _load_s(store)


def density(right: pl.LazyFrame) -> Iterator[tuple[str, float]]:
    """How many problems that are not flat have enough configurations near the best."""
    problems = near_best(right)
    uneven = problems.filter(pl.col("median") > NEAR * pl.col("best"))
    yield "problems, not flat", len(uneven)
    if len(uneven):
        enough = uneven.filter(pl.col("near") >= ENOUGH_NEAR)
        yield "problems, not flat, with 8 near the best", len(enough) / len(uneven)
        unsearched = uneven.filter(pl.col("unsearched") > 0)
        yield "such, one of them found without search", len(unsearched) / len(uneven)


def near_best(right: pl.LazyFrame) -> pl.DataFrame:
    """By problem: the best and the median time, and how many configurations are near the best.

    Those of them that were found without the search near the best are ``unsearched``.
    """
    by_configuration = right.group_by(CONFIGURATION).agg(
        pl.col("time_ms").median(),
        unsearched=pl.col("chosen_by").is_in(UNSEARCHED).any(),
    )
    best = pl.col("time_ms").min().over("problem_id")
    near = pl.col("time_ms") <= NEAR * pl.col("best")
    return (
        by_configuration.with_columns(best=best)
        .group_by("problem_id")
        .agg(
            pl.col("best").first(),
            configurations=pl.len(),
            median=pl.col("time_ms").median(),
            near=near.sum(),
            unsearched=(near & pl.col("unsearched")).sum(),
        )
        .collect()
    )


def wholly_measured(store: Store) -> Iterator[tuple[str, float]]:
    """How many problems lack good configurations although every valid one was tried.

    Raises:
        UnknownDeviceError: the set's GPU is not in the catalogue.
    """
    rows = store.scan()
    sizes = space_sizes(devices.find(rows.select("device").first().collect().item()))
    tried = rows.select("problem_id", "kernel_id", "params").unique().collect()
    counts = dict(tried.group_by("problem_id").len().iter_rows())
    whole = [name for name, size in sizes.items() if counts.get(name, 0) >= size]
    right = rows.filter(pl.col("verdict").is_in(RIGHT), pl.col("time_ms").is_not_null())
    uneven = near_best(right).filter(pl.col("median") > NEAR * pl.col("best"))
    enough, is_whole = pl.col("near") >= ENOUGH_NEAR, pl.col("problem_id").is_in(whole)
    yield "such, measured whole, fewer near", len(uneven.filter(is_whole & ~enough))
    if len(uneven):
        done = uneven.filter(enough | is_whole)
        yield "such, 8 near or measured whole", len(done) / len(uneven)


def space_sizes(device: Device) -> Mapping[str, int]:
    """By problem, how many valid configurations SolKit's own kernels have for it."""
    sizes: Counter[str] = Counter()
    with Ahead(device, os.cpu_count() or 1) as ahead:
        kernels = select_kernels(["zoo", "inductor"])
        surveys = [ahead.space(kernel, build=False) for kernel in kernels]
        for kernel, survey in zip(kernels, surveys, strict=True):
            for results in survey.result():
                sizes[kernel.problem_id(results["shape"])] += len(results["valid"])
    return sizes


def in_common(stores: list[Store]) -> int:
    """Configurations that are valid in all sets, whatever GPU they are of."""
    shared = ["kernel_id", "problem_id", "params"]
    frames = [
        store.scan()
        .filter(pl.col("verdict").is_in(RIGHT), pl.col("time_ms").is_not_null())
        .select(shared)
        .unique()
        for store in stores
    ]
    first, *others = frames
    for other in others:
        first = first.join(other, on=shared, how="semi")
    return _count(first)


def _count(rows: pl.LazyFrame) -> int:
    return int(rows.select(pl.len()).collect().item())


def _under_bound() -> pl.Expr:
    fast = pl.col("time_ms") < pl.col("hard_bound_ms")
    return pl.col("verdict").is_in(RIGHT) & fast.fill_null(False)


def _launched(store: Store, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows with ``launched``: how many launches a call makes, by its facts or its own column."""
    facts = store.facts().collect()
    reported_launches = [json.loads(text)["launches"] for text in facts["text"]]
    counts = [
        sum(launch["launch"].get("count", 1) for launch in launches)
        for launches in reported_launches
    ]
    by_facts = pl.LazyFrame(
        {"facts_id": facts["id"], "by_facts": pl.Series(counts, dtype=pl.Int64)}
    )
    own = pl.col("launches").list.eval(pl.element().struct.field("count")).list.sum()
    joined = rows.join(by_facts, on="facts_id", how="left")
    return joined.with_columns(launched=pl.coalesce("by_facts", own))


_HAS_GAPS = pl.col("time_ms") - pl.col("kernel_sum_ms") > GAP_MS * pl.max_horizontal(
    pl.col("launched") - 1, 1
)


def _load_s(store: Store) -> float:
    start = time.perf_counter()
    rows = store.scan().collect()
    rows.filter(pl.col("family") == "softmax", pl.col("verdict").is_in(RIGHT))
    return time.perf_counter() - start


def _store(name: str) -> Store:
    return Store(name) if Path(name).is_dir() else shipped(name)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; returns 1 if a target is missed, 2 if a set cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["h100", "h200"], metavar="SET")
    parser.add_argument(
        "--spaces",
        action="store_true",
        help="find what was measured whole; minutes",
    )
    options = parser.parse_args(arguments)
    names = options.sets
    try:
        stores = [_store(name) for name in names]
        missed = 0
        for name, store in zip(names, stores, strict=True):
            missed += _told(name, store, options.spaces)
    except SolkitError as error:
        print(f"dataset: {error}", file=sys.stderr)
        return 2
    if len(stores) > 1:
        size = sum(
            path.stat().st_size for store in stores for path in store.folder.rglob("*.parquet")
        )
        together = {"in all sets": (in_common(stores), IN_COMMON), "MB": (size / _MB, ALL_MB)}
        missed += _print("together", together)
    return 1 if missed else 0


def _told(name: str, store: Store, with_spaces: bool) -> int:
    targets = dict(TARGETS)
    if name in VALID:
        targets["valid configurations"] = VALID[name]
    results = [*figures(store), *(wholly_measured(store) if with_spaces else ())]
    result = {what: (figure, targets.get(what)) for what, figure in results}
    return _print(name, result)


def _print(title: str, result: Mapping[str, tuple[float, Target | None]]) -> int:
    """A table; how many targets were missed."""
    table = Table(title=title, title_justify="left")
    for column in ("figure", "is", "target", ""):
        table.add_column(column, justify="right" if column == "is" else "left")
    missed = 0
    for what, (figure, target) in result.items():
        is_met = target is None or target.met(figure)
        missed += not is_met
        amount = f"{figure:,.0f}" if figure == int(figure) else f"{figure:,.4g}"
        table.add_row(what, amount, str(target or ""), "" if is_met else "missed")
    Console().print(table)
    return missed


if __name__ == "__main__":
    sys.exit(main())
