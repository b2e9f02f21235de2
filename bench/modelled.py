"""How well the kernel model predicts and ranks times of measured sets that it was not fitted to.

    python bench/modelled.py [h100 ... | STORE ...]

By origin and language, over correct configurations whose launches were all followed: the modelled
time over the measured sum of the kernels, which excludes gaps that a busy host leaves between them.
Within each kernel and shape of eight configurations or more: the rank correlation of the two, and
how much slower the model's first choice is than the best. A modelled time under the hard bound
counts as the hard bound, as in reports; how many were raised is told. Configurations off by
more than a factor of 8 are listed by kernel.

Rows that have facts are modelled now. Rows of version 1 have the time that was modelled when they
were collected, without machine code and at uncalibrated rates (`solkit.datasets.version1`). They
form groups of their own; exported sets have no such times.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from solkit.core import CONFIGURATION, Device
from solkit.datasets.facts import facts_from_json
from solkit.datasets.store import RIGHT, Store, shipped
from solkit.errors import SolkitError
from solkit.roofline import devices
from solkit.roofline.calibration import calibrated
from solkit.roofline.kernel.evaluate import described

CELL = ("kernel_id", "problem_id", "device")
LEAST = 8
FAR = 8.0


def modelled(store: Store) -> pl.DataFrame:
    """One row a configuration, of repeats the median: its group, cell, times, and the model's."""
    launch = pl.element().struct
    each_ms = launch.field("demand").struct.field("model_ms") * launch.field("count")
    result = pl.col("launches").list.eval(each_ms)
    is_told = (result.list.len() > 0) & ~result.list.eval(pl.element().is_null()).list.any()
    is_cuda = pl.col("implementation").str.contains("/cuda_")
    language = pl.when(is_cuda).then(pl.lit("CUDA C++")).otherwise(pl.col("origin"))
    version = (
        pl.when(pl.col("by_facts").is_null()).then(pl.lit(", version 1")).otherwise(pl.lit(""))
    )
    rows = store.scan().filter(pl.col("verdict").is_in(RIGHT))
    return (
        rows.join(by_facts(store, rows), on=["facts_id", "device"], how="left")
        .with_columns(model_ms=pl.coalesce("by_facts", pl.when(is_told).then(result.list.sum())))
        .filter(pl.col("model_ms").is_not_null())
        .with_columns(
            group=language + version,
            raised=pl.col("model_ms") < pl.col("hard_bound_ms"),
            model_ms=pl.max_horizontal("model_ms", "hard_bound_ms"),
        )
        .with_columns(ratio=pl.col("model_ms") / pl.col("kernel_sum_ms"))
        .group_by("group", *CONFIGURATION)
        .agg(
            pl.col("kernel_sum_ms", "model_ms", "ratio").median(),
            pl.col("raised").any(),
            pl.col("implementation").first(),
        )
        .collect()
    )


def by_facts(store: Store, rows: pl.LazyFrame) -> pl.LazyFrame:
    """The modelled time, ``by_facts``, of each facts and device that rows have."""
    pairs = rows.select("facts_id", "device").drop_nulls().unique()
    texts = pairs.join(store.facts(), left_on="facts_id", right_on="id").collect()
    times = [_time_ms(text, device) for device, text in texts.select("device", "text").rows()]
    result = texts.select("facts_id", "device", by_facts=pl.Series(times, dtype=pl.Float64))
    return result.lazy()


@functools.cache
def _gpu(device: str) -> Device:
    return calibrated(devices.find(device))


def _time_ms(text: str, device: str) -> float | None:
    """The modelled time of all launches of a call; ``None`` if one is unknown."""
    gpu, total_ms = _gpu(device), 0.0
    for facts in facts_from_json(text):
        result = described(facts, gpu).model
        if result is None:
            return None
        total_ms += facts.launch.count * result.time_ms
    return total_ms


def ranked(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a cell that holds enough: rank correlation, and the first choice's slowdown."""
    chosen = pl.col("kernel_sum_ms").sort_by("model_ms", "params").first()
    return (
        rows.group_by("group", *CELL)
        .agg(
            rank=pl.corr("model_ms", "kernel_sum_ms", method="spearman"),
            slowdown=chosen / pl.col("kernel_sum_ms").min(),
            count=pl.len(),
        )
        .filter(pl.col("count") >= LEAST)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["h100"], help="shipped sets, or stores")
    console = Console(width=150)
    for name in parser.parse_args().sets:
        try:
            result = modelled(Store(name) if Path(name).is_dir() else shipped(name))
        except SolkitError as error:
            print(f"modelled: {error}", file=sys.stderr)
            return 2
        console.print(_table(name, result))
        console.print(_far(name, result))
    return 0


def _table(name: str, rows: pl.DataFrame) -> Table:
    table = Table(title=name, title_justify="left")
    heads = ("group", "configurations", "within 2x", "off by > 8", "model / measured: 5 %")
    heads += ("median", "95 %", "cells", "rank correlation: median", "10 %", "slowdown: median")
    heads += ("mean", "raised to the hard bound")
    for head in heads:
        table.add_column(head, justify="left" if head == "group" else "right")
    cells = ranked(rows)
    for group in sorted(rows["group"].unique()):
        own, of = rows.filter(pl.col("group") == group), cells.filter(pl.col("group") == group)
        within = own["ratio"].is_between(0.5, 2).mean()
        far = own.select(_is_far()).to_series().mean()
        low, middle, high = (own["ratio"].quantile(q) for q in (0.05, 0.5, 0.95))
        ranked_by = of["rank"].drop_nans()
        ranks = ranked_by.median(), ranked_by.quantile(0.1)
        ranks += of["slowdown"].median(), of["slowdown"].mean()
        texts = ("" if rank is None else f"{rank:.3f}" for rank in ranks)
        figures = (f"{own.height:,}", f"{within:.1%}", f"{far:.2%}")
        figures += (f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}")
        table.add_row(group, *figures, f"{of.height}", *texts, str(own["raised"].sum()))
    return table


def _is_far() -> pl.Expr:
    return ~pl.col("ratio").is_between(1 / FAR, FAR)


def _far(name: str, rows: pl.DataFrame) -> Table:
    """The configurations that are off by more than `FAR`, by kernel."""
    far = (
        rows.filter(_is_far())
        .group_by("group", "implementation")
        .agg(pl.len(), low=pl.col("ratio").min(), high=pl.col("ratio").max())
        .sort("group", "len", "implementation", descending=[False, True, False])
    )
    table = Table(title=f"{name}: off by more than {FAR:.0f}", title_justify="left")
    for head in ("group", "kernel", "configurations", "model / measured: least", "most"):
        table.add_column(head, justify="left" if head in ("group", "kernel") else "right")
    for group, kernel, count, low, high in far.rows():
        table.add_row(group, kernel, str(count), f"{low:.3f}", f"{high:.2f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
