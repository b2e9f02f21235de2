"""``solkit data``: measured times of many configurations.

One function per command. `solkit.datasets` does the work; this module adds GPU names.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.cli._commands import App
from solkit.cli.collect import collect
from solkit.cli.exit_codes import Exit
from solkit.cli.refill import refill
from solkit.cli.tuned import tuned
from solkit.errors import InputError
from solkit.extras import check_all

if TYPE_CHECKING:
    import polars

    from solkit.datasets.formats import Imported, Labels
    from solkit.datasets.store import Added, Store

app = App(
    name="data",
    help="Measured times of many configurations: collect, store, query and exchange them.",
    no_args_is_help=True,
)
app.command()(collect)
app.command(rich_help_panel="Learning from measured rows")(refill)
app.command()(tuned)

_SHOWN = 40  # rows of a query on a terminal
_SHOWN_SIDEWAYS = 4  # rows with a line per column
_NARROWEST = 8  # characters per line of a folded column name

_Store = Annotated[
    str, typer.Argument(metavar="STORE", help="A store's folder, or the name of a shipped set.")
]
_Into = Annotated[
    Path, typer.Argument(metavar="STORE", help="A store's folder; created if missing.")
]
_Where = Annotated[
    str | None, typer.Option(metavar="SQL", help="Only these rows, e.g. \"family = 'softmax'\".")
]


@app.command()
def info(store: _Store, json: _options.Json = None, verbose: _options.Tracebacks = False) -> None:
    """Show what a store holds."""
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        data = open_store(store)
        summary = _summarise_store(data)
        if json != "-":
            _show_summary(data, summary)
        _base.write_destination(json, lambda: _document("data_info", summary))


@app.command(name="import")
def import_(
    store: _Into,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files of other tools, also gzipped.")
    ],
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(metavar="NAME", help="Their format, as listed above. Default: detected."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=_options.device_names,
            help="The GPU, if the files do not name it; named as in `solkit devices`.",
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="What the kernel computes, e.g. softmax.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="The family's kind, e.g. norm.")] = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Import files of other tools; re-importing adds only new rows.

    Exit code 2 if a file has errors and no valid row.

    Formats: run and trace (SolKit's own), kernel_tuner, t4, columns, triton_autotune,
    helion, sol_execbench, flashinfer_bench, kernelbench_results, kernelbench_timing,
    kernelbench_com, cuda_l1, liger_kernel, aiter, neusight, times_table, vllm, sglang.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        from solkit.datasets import formats
        from solkit.datasets.store import Store, Tables
        from solkit.roofline.devices import catalogue_key

        target = Store(store, create=True)
        labels = formats.Labels(catalogue_key(device) if device else None, family, kind)
        imports = [_import_rows(file, format, labels) for file in files]
        for fault in (fault for imported in imports for fault in imported.faults):
            _base.print_complaint(fault)
        refused = [
            file
            for file, imported in zip(files, imports, strict=True)
            if imported.faults and not imported.rows
        ]
        if not refused or any(
            imported.rows for imported in imports
        ):  # otherwise create no empty store
            tables = Tables.together(Tables.of(e.rows, e.sources, e.facts) for e in imports)
            facts_of = {
                row: name for imported in imports for row, name in imported.facts_of.items()
            }
            added = target.add_tables(tables.with_facts(facts_of))
            _print_added(store, replace(added, faults=tables.without(facts_of)))
        for file in refused:
            _base.print_complaint(f"{file}: no row could be imported")
    if refused:  # for `import && rm`
        raise typer.Exit(Exit.BAD_INPUT)


def _import_rows(file: Path, format: str | None, labels: Labels) -> Imported:  # noqa: A002
    """Import a file's rows; a file that cannot be read is a fault, and the others are imported."""
    from solkit.datasets import formats

    try:
        return _with_catalogue_keys(formats.read(file, format, labels))
    except InputError as error:
        return formats.Imported((), faults=(str(error),))


@app.command()
def export(
    store: _Store,
    destination: Annotated[
        Path, typer.Argument(metavar="DESTINATION", help="A file; a new folder for huggingface.")
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="huggingface (Parquet and card), t4 (JSON) or tried (for collect --after).",
        ),
    ] = "huggingface",
    where: _Where = None,
    title: Annotated[str | None, typer.Option(help="The set's name on the card.")] = None,
    notes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Markdown for the card: how and where it was measured, known limits.",
        ),
    ] = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Export rows for other tools."""
    with exit_codes.failures_as_exit_codes(verbose):
        from solkit.datasets.store import blaming

        data = open_store(store)
        if to == "huggingface":
            from solkit.datasets import card

            card.export_set(data, destination, title or destination.name, _read_notes(notes), where)
        elif to in ("t4", "tried"):
            from solkit.datasets import outcomelog
            from solkit.datasets.formats import t4

            _base.check_writable(str(destination), "DESTINATION")
            text_of = {"t4": t4.dumps, "tried": outcomelog.log_of_tried}[to]
            with blaming(where):  # rows are read as they are written
                text = text_of(data.rows(data.where(where)))
            _base.write_destination(str(destination), lambda: text, "DESTINATION")
        else:
            raise InputError(f"--to {to}: choose one of: huggingface, t4, tried")


@app.command()
def merge(
    store: _Into,
    others: Annotated[
        list[Path],
        typer.Argument(metavar="FROM...", help="Stores, parts (*.parquet), runs (*.jsonl)."),
    ],
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Read damaged files as far as possible.")
    ] = False,
    verbose: _options.Tracebacks = False,
) -> None:
    """Merge stores into one. Merging into a new store sorts its parts.

    Exit code 2 if there are errors and no row can be read.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        from solkit.datasets.store import Store

        added = Store(store, create=True).merge(others, salvage)
        _print_added(store, added)
    if added.faults and not added.rows + added.known:
        _base.print_complaint("no row could be read from the files to merge")
        raise typer.Exit(Exit.BAD_INPUT)


@app.command()
def query(
    store: _Store,
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL",
            help='e.g. "select family, min(time_ms) from data group by family"; the tables are '
            "data and sources.",
        ),
    ],
    json: _options.Json = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write CSV to FILE; `-` is stdout.")
    ] = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Query a store with SQL."""
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        _base.check_writable(csv, "--csv")
        frame = open_store(store).query(sql)
        if "-" not in (json, csv):
            _show_frame(frame)
        _base.write_destination(json, frame.write_json)
        _base.write_destination(
            csv, lambda: _flatten_for_csv(frame).write_csv().removesuffix("\n"), "--csv"
        )


@app.command()
def verify(store: _Store, json: _options.Json = None, verbose: _options.Tracebacks = False) -> None:
    """Check a whole store. Exit code 1 if anything is damaged or wrong."""
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        from solkit.datasets import verification

        report = verification.verify_store(open_store(store))
        if json != "-":
            for line in (*report.damage, *report.faults):
                typer.echo(f"wrong: {line}")
            for note in report.notes:
                typer.echo(f"note: {note}")
            whole = "whole" if report.is_whole else "not whole"
            held = f"{report.rows:,} rows, {report.sources:,} sources, {report.facts:,} facts"
            typer.echo(f"{store}: {whole}: {held}")
        _base.write_destination(json, lambda: _document("data_verify", asdict(report)))
    raise typer.Exit(Exit.REPORTED if report.is_whole else Exit.SOLKIT_FAILED)


# ------------------------------------------------------------------------------------- in and out


def open_store(name: str) -> Store:
    """Open the store in this folder, else the shipped set of this name."""
    check_all("data")  # before a name is looked for in sets that may lack as well
    from solkit.datasets.store import Store, shipped

    if Path(name).exists() or "/" in name:
        return Store(name)
    return shipped(name)


def _with_catalogue_keys(imported: Imported) -> Imported:
    """Return rows with the catalogue's key of their GPU, if it has one."""
    from solkit.roofline.devices import catalogue_key

    rows = tuple(replace(row, device=catalogue_key(row.device)) for row in imported.rows)
    return replace(imported, rows=rows)


def _print_added(what: Path, added: Added) -> None:
    for fault in added.faults:
        _base.print_complaint(fault)
    repeated = f", {added.known:,} known already" if added.known else ""
    facts = f", {added.facts:,} new facts" if added.facts else ""
    typer.echo(f"{what}: {added.rows:,} new rows{repeated}, {added.sources:,} new sources{facts}")


def _read_notes(path: Path | None) -> str:
    try:
        return "" if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--notes: cannot read {path}: {error}") from error


# ---------------------------------------------------------------------------------------- answers


def _flatten_for_csv(frame: polars.DataFrame) -> polars.DataFrame:
    """Write lists and structs as JSON text: CSV has neither."""
    from solkit.datasets.tables import polars_module

    pl = polars_module()
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    texts = {
        name: [jsonlib.dumps(cell, default=str) for cell in frame[name].to_list()]
        for name in nested
    }
    return frame.with_columns(**{name: pl.Series(text) for name, text in texts.items()})


def _show_frame(frame: polars.DataFrame) -> None:
    """Print a line per row; a line per column if the terminal is too narrow for their names."""
    shown = frame.head(_SHOWN)
    needed = 1 + sum(3 + min(len(name), _NARROWEST) for name in frame.columns)
    if needed <= _base.rich_console().width:
        _print_table(frame.columns, shown.rows())
    else:
        shown = frame.head(_SHOWN_SIDEWAYS)
        for row in shown.rows():
            _print_table(("column", "value"), zip(frame.columns, row, strict=True))
    if len(frame) > len(shown):
        typer.echo(f"{len(shown)} of {len(frame):,} rows; --json or --csv FILE writes all")


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from rich.table import Column, Table

    table = Table(*(Column(name, overflow="fold") for name in columns))  # names must not be cut
    for row in rows:
        table.add_row(*(f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row))
    _base.rich_console().print(table)


def _summarise_store(store: Store) -> dict[str, Any]:
    from solkit.datasets.card import compare_repeats
    from solkit.datasets.tables import polars_module

    pl = polars_module()
    rows = store.scan()
    groups = (
        rows.group_by("device", "kind", "family")
        .agg(
            pl.col("problem_id").n_unique().alias("problems"),
            pl.col("kernel_id").n_unique().alias("kernels"),
            pl.len().alias("rows"),
            pl.col("time_ms").count().alias("timed"),
        )
        .sort("device", "kind", "family")
    )
    runs = rows.group_by("run_id").agg(pl.col("created").min(), pl.len().alias("rows"))
    files = store.files()
    return {
        "folder": str(store.folder),
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "sources": store.sources().select(pl.len()).collect().item(),
        "facts": store.facts().select(pl.len()).collect().item(),
        "verdicts": dict(rows.group_by("verdict").len().sort("verdict").collect().rows()),
        "repeats": asdict(compare_repeats(rows)),
        "runs": [(name, str(when), n) for name, when, n in runs.sort("created").collect().rows()],
        "families": groups.collect().to_dicts(),
    }


def _document(name: str, content: Mapping[str, object]) -> str:
    return jsonlib.dumps({"schema": f"solkit.{name}/1", **content}, indent=2, default=str)


def _show_summary(store: Store, summary: dict[str, Any]) -> None:
    families = summary["families"]
    names = list(families[0]) if families else []
    _print_table(names, [tuple(family.values()) for family in families])
    count, timed = (sum(family[name] for family in families) for name in ("rows", "timed"))
    verdicts = ", ".join(f"{name} {n:,}" for name, n in summary["verdicts"].items())
    typer.echo(
        f"{store.folder}: {count:,} rows ({timed:,} timed) of {len(summary['runs'])} runs, "
        f"{summary['sources']:,} sources, {summary['facts']:,} facts; {summary['files']} files, "
        f"{summary['bytes'] / 1e6:.1f} MB\n"
        f"verdicts: {verdicts or 'none'}"
    )
    if summary["repeats"]["configurations"]:
        typer.echo(
            "repeats: {configurations:,} configurations in several runs, whose times differ "
            "by {median:.2%} (median), {p95:.2%} (95th percentile)".format(**summary["repeats"])
        )
