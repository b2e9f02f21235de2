"""How well the kernel model tells and ranks the times of measured sets that it was not fitted to.

    python bench/modelled.py [h100 ... | STORE ...]

By origin and language, over configurations that were right and whose launches were all followed (no
machine code was read for them, see `solkit.datasets.record.TimedDemand`): modelled time over the
measured sum of its kernels, which no gap between them that a busy host leaves is part of; and
within each kernel and shape of eight configurations or more, the rank correlation of the two, and
how much slower the model's first choice is than the best. Modelled times under the hard bound are
counted too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from solkit.datasets.record import CONFIGURATION
from solkit.datasets.store import Store, shipped
from solkit.errors import SolkitError

CELL = ("kernel_id", "problem_id", "device")
LEAST = 8


def modelled(rows: pl.LazyFrame) -> pl.DataFrame:
    """One row a configuration, of repeats the median: its group, cell, times, and the model's."""
    launch = pl.element().struct
    each_ms = launch.field("demand").struct.field("model_ms") * launch.field("count")
    told = pl.col("launches").list.eval(each_ms)
    name = pl.col("implementation").str.contains("/cuda_")
    return (
        rows.filter(pl.col("verdict") == "correct", pl.col("launches").list.len() > 0)
        .with_columns(model_ms=told.list.sum(), unknown=told.list.eval(pl.element().is_null()))
        .filter(~pl.col("unknown").list.any())
        .with_columns(
            group=pl.when(name).then(pl.lit("CUDA C++")).otherwise(pl.col("origin")),
            ratio=pl.col("model_ms") / pl.col("kernel_sum_ms"),
        )
        .group_by("group", *CONFIGURATION)
        .agg(pl.col("kernel_sum_ms", "hard_bound_ms", "model_ms", "ratio").median())
        .collect()
    )


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
            found = modelled((Store(name) if Path(name).is_dir() else shipped(name)).scan())
        except SolkitError as error:
            print(f"modelled: {error}", file=sys.stderr)
            return 2
        console.print(_table(name, found))
    return 0


def _table(name: str, rows: pl.DataFrame) -> Table:
    table = Table(title=name, title_justify="left")
    heads = ("group", "configurations", "within 2x", "model / measured: 5 %", "median", "95 %")
    heads += ("cells", "rank correlation", "slowdown: median", "mean", "under the hard bound")
    for head in heads:
        table.add_column(head, justify="left" if head == "group" else "right")
    cells = ranked(rows)
    for group in sorted(rows["group"].unique()):
        own, of = rows.filter(pl.col("group") == group), cells.filter(pl.col("group") == group)
        within = own["ratio"].is_between(0.5, 2).mean()
        low, middle, high = (own["ratio"].quantile(q) for q in (0.05, 0.5, 0.95))
        rank = of["rank"].drop_nans().median()
        under = own.filter(pl.col("model_ms") < pl.col("hard_bound_ms")).height
        figures = (f"{own.height:,}", f"{within:.1%}", f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}")
        told = (f"{of.height}", f"{rank:.2f}", f"{of['slowdown'].median():.3f}")
        table.add_row(group, *figures, *told, f"{of['slowdown'].mean():.3f}", str(under))
    return table


if __name__ == "__main__":
    sys.exit(main())
