"""A set of data to publish: Parquet files and a card that describes them.

The card is a ``README.md`` with the front matter that Hugging Face's Hub reads
(https://huggingface.co/docs/hub/datasets-cards). The folder is a `Store` as well.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.core import CONFIGURATION, FACTS_VERSION, Outcome, Source, StoredFacts
from solkit.datasets import parts
from solkit.datasets.store import RIGHT, Store, blaming
from solkit.datasets.tables import polars_module
from solkit.datasets.version1 import without_demand
from solkit.errors import InputError, TraceError

if TYPE_CHECKING:
    import polars

LICENSE = "cc-by-4.0"

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True)
class Repeats:
    """Agreement between runs of the times of a configuration.

    Attributes:
        configurations: how many were timed in at least two runs.
        median, p95: of the absolute relative differences between a run's time and the first run's.
    """

    configurations: int
    median: float | None = None
    p95: float | None = None


def compare_repeats(rows: polars.LazyFrame) -> Repeats:
    """Compare the times of each configuration between runs, by the median of each run."""
    pl = polars_module()
    timed = rows.filter(pl.col("time_ms").is_not_null(), pl.col("verdict").is_in(RIGHT))
    a_run = timed.group_by(*CONFIGURATION, "run_id").agg(
        pl.col("time_ms").median(), pl.col("created").min()
    )
    first = pl.col("time_ms").sort_by("created").first().over(CONFIGURATION)
    place = pl.col("created").rank("ordinal").over(CONFIGURATION)
    later = (
        a_run.with_columns(change=(pl.col("time_ms") / first - 1).abs(), place=place)
        .filter(pl.col("place") > 1)
        .select(
            pl.struct(CONFIGURATION).n_unique().alias("count"),
            pl.col("change").median().alias("median"),
            pl.col("change").quantile(0.95, "linear").alias("p95"),
        )
    )
    return Repeats(*later.collect().row(0))


def export_set(
    store: Store,
    folder: str | os.PathLike[str],
    title: str,
    notes: str = "",
    where: str | None = None,
) -> Path:
    """Write rows, the files and facts that they refer to, and a card into a new folder.

    Args:
        store: with the rows.
        folder: new or empty; a new one is complete or absent.
        title: the set's name, for the card.
        notes: Markdown for the card: how, when and where it was measured, and its known limits.
        where: a condition on rows in SQL; all by default.

    Returns:
        The card.

    Raises:
        InputError: the folder is not empty, a part is damaged, `where` is invalid, or there is
            nothing to export.
        TraceError: it cannot be written.
    """
    target = Path(folder).resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder} is not empty: a set is exported into a new folder")
    with blaming(where):
        rows = store.where(where).collect()
    if not len(rows):
        raise InputError(f"{store.folder}: no rows to export")
    try:
        is_new = not target.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.parent if is_new else target  # which a shell or a mount may hold
        with tempfile.TemporaryDirectory(prefix=".export-", dir=beside) as drafts:
            draft = Path(drafts) / target.name  # the card names the folder
            _write_rows_with_references(store, rows, draft)
            text = render_card(Store(draft), title, notes)
            (draft / "README.md").write_text(text, encoding="utf-8")
            if is_new:
                draft.rename(target)
            else:
                for part in sorted(draft.iterdir()):
                    part.rename(target / part.name)
    except OSError as error:
        raise TraceError(f"cannot write {folder}: {error.strerror or error}") from error
    return Path(folder) / "README.md"


def _write_rows_with_references(store: Store, rows: polars.DataFrame, folder: Path) -> None:
    """Write rows, and the files and facts that they refer to, as a store, tightly.

    Paths are left out, as they only describe the machine, and what version 1's model said.
    """
    pl = polars_module()
    rows = without_demand(rows)
    rows = rows.with_columns(path=pl.lit(None, pl.String), problem_path=pl.lit(None, pl.String))
    hashes = pl.concat([rows["source_sha256"], rows["problem_sha256"]]).drop_nulls().unique()
    sources = (
        store.sources().filter(pl.col("sha256").is_in(hashes.implode())).sort("sha256").collect()
    )
    order = ["device", "kind", "family", "problem_id", "kernel_id", "params"]
    ordered = rows.sort(order)
    named = ordered.lazy().select(id="facts_id").drop_nulls().unique(maintain_order=True)
    facts = named.join(store.facts(), on="id", maintain_order="left").collect()
    facts = pl.concat([facts, _unreferenced_facts(store)])
    parts.write_parts(folder / "parts", Outcome, ordered.to_arrow(), tight=True)
    parts.write_parts(folder / "sources", Source, sources.to_arrow(), tight=True)
    parts.write_parts(folder / "facts", StoredFacts, facts.to_arrow(), tight=True)


def _unreferenced_facts(store: Store) -> polars.DataFrame:
    """Return the facts that no row names: those of the lowered depth, whose key follows from a row.

    No key leads to those of an older version, so they are left out.
    """
    pl = polars_module()
    named = store.scan().select(id="facts_id").drop_nulls()
    older = [f'{{"version":{version},' for version in range(1, FACTS_VERSION)]
    is_old = pl.any_horizontal(pl.col("text").str.starts_with(start) for start in older)
    return store.facts().filter(~is_old).join(named, on="id", how="anti").sort("text").collect()


def render_card(store: Store, title: str, notes: str = "") -> str:
    """Return the card of a set as Markdown: counts, conditions and the text of `notes`."""
    rows = store.scan()
    body = [
        _front_matter(store, title, int(rows.select(polars_module().len()).collect().item())),
        f"# {title}\n",
        notes.strip() + "\n" if notes else "",
    ]
    body += [
        _contents_table(rows),
        _conditions(rows),
        _noise_lines(compare_repeats(rows)),
        _usage_lines(store.folder.name),
    ]
    return "\n".join(part for part in body if part)


def _front_matter(store: Store, title: str, count: int) -> str:
    size = next((name for most, name in _SIZES if count < most), "1M<n<10M")
    folders = {"default": "parts", "sources": "sources", "facts": "facts"}
    configs = "\n".join(
        f"- config_name: {name}\n  data_files: {folder}/*.parquet"
        for name, folder in folders.items()
        if parts.list_parts(store.folder / folder)
    )
    return f"""---
license: {LICENSE}
pretty_name: {json.dumps(title, ensure_ascii=False)}
size_categories:
- {size}
tags:
- gpu
- cuda
- triton
- performance
- autotuning
configs:
{configs}
---
"""


def _contents_table(rows: polars.LazyFrame) -> str:
    pl = polars_module()
    table = (
        rows.group_by("device", "kind")
        .agg(
            pl.col("family").n_unique().alias("families"),
            pl.col("problem_id").n_unique().alias("problems"),
            pl.col("kernel_id").n_unique().alias("kernels"),
            pl.struct(CONFIGURATION).n_unique().alias("configurations"),
            pl.col("time_ms").count().alias("timed"),
            (pl.len() - pl.col("time_ms").count()).alias("not timed"),
        )
        .sort("device", "kind")
        .collect()
    )
    verdicts = rows.group_by("verdict").len().sort("len", descending=True).collect()
    listed = ", ".join(f"{name} {count:,}" for name, count in verdicts.rows())
    return f"## What is in it\n\n{_markdown_table(table)}\nVerdicts: {listed}.\n"


def _conditions(rows: polars.LazyFrame) -> str:
    pl = polars_module()
    names = (
        "device_name",
        "driver_version",
        "torch_version",
        "triton_version",
        "protocol",
        "method",
    )
    runs = (
        rows.group_by("run_id")
        .agg(
            pl.col("created").min().dt.strftime("%Y-%m-%d %H:%M").alias("from (UTC)"),
            pl.len().alias("rows"),
            *(pl.col(name).drop_nulls().unique().sort().str.join(", ") for name in names),
        )
        .sort("from (UTC)", "run_id")
        .collect()
    )
    return f"## How it was measured\n\n{_markdown_table(runs)}"


def _noise_lines(repeats: Repeats) -> str:
    if not repeats.configurations:
        return "## Noise\n\nNo configuration was timed in more than one run.\n"
    return f"""## Noise

{repeats.configurations:,} configurations were timed in more than one run. Their times differ by
{repeats.median:.2%} in the median and {repeats.p95:.2%} at the 95th percentile.
"""


def _usage_lines(name: str) -> str:
    return f"""## Use

```python
import polars as pl
from solkit.datasets.store import Store

rows = Store("{name}").scan()  # or: pl.scan_parquet("{name}/parts/*.parquet")
right = rows.filter(pl.col("verdict").is_in({json.dumps(RIGHT)}))
print(right.group_by("problem_id").agg(pl.min("time_ms")).collect())
```

A row is one attempt at one configuration of one kernel on one problem. `solkit.core.Outcome`
describes columns and units. Rows with the same
`{"`, `".join(CONFIGURATION)}` are repeats.
Failures have a verdict and no time. `sources/` holds the files that `source_sha256` and
`problem_sha256` name, where they are known. Licence: CC-BY-4.0.
"""


def _markdown_table(table: polars.DataFrame) -> str:
    lines = [f"| {' | '.join(table.columns)} |", "|---" * table.width + "|"]
    for row in table.rows():
        cells = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
