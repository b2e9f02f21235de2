"""A store of measured data: a folder of Parquet files. Files are only ever added.

::

    my-data/
        parts/*.parquet      rows, `Outcome`; sorted, so that filters skip most row groups
        sources/*.parquet    the files that rows refer to, each once, `Source`
        facts/*.parquet      the facts that rows refer to, each once, `StoredFacts`

A known row (same run, same place in it) is not written again, so an interrupted command can simply
be repeated. Any number of processes on one file system may write: they wait for each other. Reading
is lazy and needs no lock.

polars and pyarrow (``pip install 'solkit[data]'``) are imported on use.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.core import CONFIGURATION, ROW_KEY, Outcome, Source, StoredFacts, Verdict
from solkit.datasets import outcomelog, parts
from solkit.datasets.shipped import folder as shipped_sets
from solkit.datasets.tables import (
    polars_module,
    polars_schema,
    pyarrow_module,
    records_of,
    table_of,
)
from solkit.datasets.version1 import LAUNCHES
from solkit.errors import InputError, TraceError

if TYPE_CHECKING:
    import polars
    import pyarrow

_FOLDERS: dict[type, str] = {Outcome: "parts", Source: "sources", StoredFacts: "facts"}
_FIELDS: dict[type, str] = {Outcome: "rows", Source: "sources", StoredFacts: "facts"}  # of Tables

_SORTED_BY = ("device", "kind", "family", "problem_id", "kernel_id", "params", *ROW_KEY)
RIGHT = tuple(verdict.value for verdict in Verdict if verdict.is_right)
"""Verdicts of rows that are correct, as the column has them."""

_COUNTING = (*RIGHT, Verdict.NOT_MEASURED.value)
"""Rows with these verdicts count towards the time of their configuration."""

_WRITING = ("ALTER", "CREATE", "DELETE", "DROP", "INSERT", "MERGE", "TRUNCATE", "UPDATE")

_UNCOMPARED = ("created", "device", "kind", "schema_version", LAUNCHES, "facts_id")
"""Columns that are ignored when rows of one run and place are compared.

The first do not name an imported row (`solkit.datasets.formats.read`): a file that is imported
again may have been touched, or be labelled otherwise. The last two follow from the kernel, its
configuration and Triton.
"""

_ASIDE = re.compile(r"\n\n(?:Resolved plan until failure|This error occurred)|; valid columns")
"""Text that follows polars's reason and does not help who wrote the SQL."""


@dataclass(frozen=True)
class Added:
    """The result of adding rows to a store.

    Attributes:
        rows: number of new rows.
        known: rows that the store had already, or that were given twice.
        sources: number of new files.
        faults: what could not be added, a sentence each.
        facts: number of new facts.
    """

    rows: int
    known: int
    sources: int
    faults: tuple[str, ...] = ()
    facts: int = 0


@dataclass(frozen=True)
class Tables:
    """The content of a store as Arrow tables: `Outcome`, `Source` and `StoredFacts`."""

    rows: pyarrow.Table
    sources: pyarrow.Table
    facts: pyarrow.Table

    @staticmethod
    def of(
        rows: Iterable[Outcome] = (),
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> Tables:
        """Return the tables of some records."""
        return Tables(
            table_of(Outcome, rows), table_of(Source, sources), table_of(StoredFacts, facts)
        )

    @staticmethod
    def together(tables: Iterable[Tables]) -> Tables:
        """Join tables one after the other."""
        rows, sources, facts = zip(*((t.rows, t.sources, t.facts) for t in tables), strict=True)
        return Tables(*map(pyarrow_module().concat_tables, (rows, sources, facts)))

    def keys(self) -> list[outcomelog.RowKey]:
        """Return the run and the place of each row."""
        return list(zip(*(self.rows[name].to_pylist() for name in ROW_KEY), strict=True))

    def without(self, facts_of: Mapping[outcomelog.RowKey, str]) -> tuple[str, ...]:
        """Return a sentence if some facts belong to rows that are not here."""
        absent = facts_of.keys() - set(self.keys())
        reason = f"facts belong to {len(absent)} rows that are not here: merge them with these rows"
        return (f"{reason} into a new store",) if absent else ()

    def with_facts(self, facts_of: Mapping[outcomelog.RowKey, str]) -> Tables:
        """Return the same, with the facts of some rows in place of the launches of version 1."""
        ids = [facts_of.get(key) for key in self.keys()]
        if not any(ids):
            return self
        pa, rows = pyarrow_module(), self.rows
        linked = pa.array(ids, pa.string())
        columns = {
            "facts_id": pa.compute.coalesce(linked, rows["facts_id"]),
            LAUNCHES: pa.compute.if_else(
                linked.is_null(), rows[LAUNCHES], pa.scalar(None, rows[LAUNCHES].type)
            ),
        }
        for name, column in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return replace(self, rows=rows)


class Store:
    """A folder of measured data.

    Args:
        folder: its path.
        create: whether it may be made; else it must exist.

    Raises:
        InputError: the folder is not a store.
    """

    def __init__(self, folder: str | os.PathLike[str], create: bool = False) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{folder} is a file; a store is a folder")
        # in this order: another process may make the store meanwhile, a folder of it first
        is_free = not self.folder.exists() or not any(self.folder.iterdir())
        is_store = any(folder.is_dir() for folder in self.folders)
        if not is_store and not (create and is_free):
            there = "is empty" if is_free else "contains other files"
            what = there if self.folder.exists() else "does not exist"
            raise InputError(f"{folder} is not a store: it {what}; expected a folder with parts/")

    # ---------------------------------------------------------------------------------- reading

    @property
    def parts(self) -> tuple[Path, ...]:
        """The files with rows, oldest first."""
        return self.files(Outcome)

    @property
    def source_parts(self) -> tuple[Path, ...]:
        """The files with sources, oldest first."""
        return self.files(Source)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that hold files."""
        return tuple(self.folder / name for name in _FOLDERS.values())

    def files(self, form: type | None = None) -> tuple[Path, ...]:
        """Return the files of one form of record, oldest first; all files by default."""
        forms = _FOLDERS if form is None else (form,)
        return tuple(
            path for form in forms for path in parts.list_parts(self.folder / _FOLDERS[form])
        )

    def scan(self) -> polars.LazyFrame:
        """Scan every row lazily: only the columns and row groups that a query needs are read.

        Raises:
            InputError: a part is damaged or foreign.
        """
        return _scan_parts(self.parts, Outcome)

    def sources(self) -> polars.LazyFrame:
        """Scan every `Source` lazily.

        Raises:
            InputError: a part is damaged or foreign.
        """
        return _scan_parts(self.source_parts, Source)

    def facts(self) -> polars.LazyFrame:
        """Scan all `StoredFacts` lazily: join them on `Outcome.facts_id`.

        Raises:
            InputError: a part is damaged or foreign.
        """
        return _scan_parts(self.files(StoredFacts), StoredFacts)

    def where(self, condition: str | None) -> polars.LazyFrame:
        """Return the rows of `scan` that satisfy a condition in SQL; all rows without one.

        Raises:
            InputError: a part is damaged, or the condition is invalid.
        """
        rows = self.scan()
        if condition is None:
            return rows
        pl = polars_module()
        with blaming(condition):
            pl.sql_expr(condition)  # or its text could end the clause that it is inserted into
            # not as an expression: there polars cannot compare times with text
            context = pl.SQLContext({"data": rows})
            value = context.execute(f"SELECT ({condition}) AS value FROM data", eager=False)
            kind = value.collect_schema()["value"]
        if kind != pl.Boolean:
            raise InputError(f"{condition!r} is not a condition: it is {kind}, not Boolean")
        return context.execute(f"SELECT * FROM data WHERE ({condition})", eager=False)  # type: ignore[no-any-return]

    def query(self, sql: str) -> polars.DataFrame:
        """Return the result of a query in SQL on the tables ``data``, ``sources`` and ``facts``.

        Raises:
            InputError: a part is damaged, or the query is invalid or would write.
        """
        verb = sql.split(maxsplit=1)[0].upper() if sql.strip() else ""
        if verb in _WRITING:
            raise InputError(f"{sql!r}: a query only reads; {verb} would change the store")
        rows = self.scan()
        tables = {"data": rows, "sources": self.sources(), "facts": self.facts()}
        context = polars_module().SQLContext(tables)
        with blaming(sql):
            return context.execute(sql, eager=True)  # type: ignore[no-any-return]

    def rows(self, frame: polars.LazyFrame | None = None) -> Iterator[Outcome]:
        """Yield rows as records: all, or those of a frame made from `scan`.

        Raises:
            InputError: a part is damaged, or a row is invalid.
        """
        return self._records((self.scan() if frame is None else frame).collect())

    def _records(self, frame: polars.DataFrame) -> Iterator[Outcome]:
        try:
            yield from records_of(Outcome, frame.to_arrow())
        except ValueError as error:
            raise InputError(
                f"{self.folder}: a row cannot be read: {error} (see: solkit data verify)"
            ) from error

    # ---------------------------------------------------------------------------------- writing

    def add(
        self,
        rows: Iterable[Outcome],
        sources: Iterable[Source] = (),
        facts: Iterable[StoredFacts] = (),
    ) -> Added:
        """Add rows, and the files and facts that they refer to.

        Raises:
            InputError: a part of the store is damaged, a row has no run, or it differs from another
                row of the same run and place, in the store or given here. Nothing is written.
            TraceError: they could not be written; the store is unchanged.
        """
        return self.add_tables(Tables.of(rows, sources, facts))

    def add_tables(self, tables: Tables) -> Added:
        """Add tables as `add` does."""
        rows = tables.rows
        if pyarrow_module().compute.any(pyarrow_module().compute.equal(rows["run_id"], "")).as_py():
            raise InputError("a row has no run_id: an OutcomeLog numbers rows")
        with self._locked():
            there = self.scan()
            sources = _rows_not_there(tables.sources, self.sources(), ("sha256",))
            facts = _rows_not_there(tables.facts, self.facts(), ("id",))
            new = _rows_not_there(rows, there, ROW_KEY)
            _refuse_others(rows, there, self.folder)
            new = new.sort_by([(name, "ascending") for name in _SORTED_BY])
            # rows last: what they refer to is there before them
            self._write(Source, sources.sort_by("sha256"))
            self._write(StoredFacts, _as_referred_to(facts, new))
            self._write(Outcome, new)
        duplicates = rows.num_rows - new.num_rows
        return Added(new.num_rows, duplicates, sources.num_rows, facts=facts.num_rows)

    def merge(self, paths: Iterable[str | os.PathLike[str]], salvage: bool = False) -> Added:
        """Add the content of other stores and files.

        Rows get the facts that a log has for them (`outcomelog.Contents.facts_of`), except rows
        that this store has already, as parts never change: merge those into a new store.

        Args:
            paths: stores, parts (``*.parquet``) and logs (``*.jsonl``).
            salvage: take what can be read of damaged files, and report the rest in `Added.faults`.

        Raises:
            InputError: a path is none of these, or damaged; or as for `add`.
            TraceError: they could not be written; the store is unchanged.
        """
        tables, facts_of, faults = _gather_tables([Path(path) for path in paths], salvage)
        added = self.add_tables(tables.with_facts(facts_of))
        if facts_of and added.known:
            reason = f"{added.known} rows are in {self.folder} already and were not given facts"
            faults += (f"{reason}: merge into a new store for that",)
        return replace(added, faults=faults + tables.without(facts_of))

    def with_facts(
        self,
        folder: str | os.PathLike[str],
        facts_of: Mapping[outcomelog.RowKey, str],
        facts: Iterable[StoredFacts],
    ) -> Store:
        """Write a new store: this one, with facts for some of its rows.

        Such a row refers to its facts and has no `launches` of version 1; all else is unchanged.

        Args:
            folder: of the new store; it must be empty.
            facts_of: ids of facts, by run and place of the row.
            facts: those that this store lacks.

        Raises:
            InputError: the folder is not empty, or a part is damaged.
            TraceError: the store could not be written.
        """
        target = Store(folder, create=True)
        if target.files():
            raise InputError(f"{folder} is a store already: choose a new folder")
        held, _, _ = _gather_tables([self.folder], salvage=False)
        combined = Tables.together([held, Tables.of(facts=facts)])
        target.add_tables(combined.with_facts(facts_of))
        return target

    def _write(self, form: type, table: pyarrow.Table) -> None:
        parts.write_parts(self.folder / _FOLDERS[form], form, table)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait for other writers, then remove the unfinished files of those that died."""
        try:
            (self.folder / "parts").mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise TraceError(f"cannot write to {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for folder in self.folders:
                for draft in parts.unfinished_files(folder):
                    draft.unlink()
            yield
        finally:
            os.close(lock)


def shipped(name: str) -> Store:
    """Return a set that SolKit ships, by name.

    Raises:
        InputError: there is no such set.
        UnsupportedError: the sets are not installed.
    """
    nor = "" if Path(name).exists() else ", and no folder of that name"
    sets = shipped_sets(f"no store {name!r}{nor}")
    names = sorted(path.parent.name for path in sets.glob("*/parts"))
    if name not in names:
        near = difflib.get_close_matches(name, names)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise InputError(f"no set {name!r}{nor}; {hint}there are: {', '.join(names)}")
    return Store(sets / name)


def configurations(rows: polars.LazyFrame) -> polars.LazyFrame:
    """Combine the repeats of each configuration in a row; comparisons in turns are left out.

    Args:
        rows: of `Store.scan`, maybe filtered.

    Returns:
        The columns of `CONFIGURATION`, and ``family``, ``kind``, ``origin``, ``bound_ms``;
        ``tries`` and ``timed``, how often it was tried and how often that gave a time that counts
        (it was correct, or another tool timed it unchecked); ``time_ms``, their median;
        ``spread``, the largest of them over the smallest.
    """
    pl = polars_module()
    time = pl.col("time_ms").filter(pl.col("verdict").is_in(_COUNTING))
    return (
        rows.filter(pl.col("comparison").is_null())
        .group_by(CONFIGURATION)
        .agg(
            pl.col("family", "kind", "origin").first(),
            pl.col("bound_ms").drop_nulls().first(),
            tries=pl.len(),
            timed=time.count(),
            time_ms=time.median(),
            spread=time.max() / time.min(),
        )
    )


@contextlib.contextmanager
def blaming(sql: str | None) -> Iterator[None]:
    """Report an error of polars in the body as one in that SQL, if there is any.

    Polars finds some errors when it plans, and some when the result of `Store.where` is collected.

    Raises:
        InputError: polars raised; says why, and names all columns if one is unknown.
    """
    errors = polars_module().exceptions
    try:
        yield
    except errors.PolarsError as error:
        if sql is None:
            raise
        reason = _ASIDE.split(str(error))[0]
        if isinstance(error, errors.ColumnNotFoundError):
            names = ", ".join(polars_schema(Outcome).names())
            reason += f"\nthe columns of data: {names}"
        raise InputError(f"{sql!r}: {reason}") from error


def _scan_parts(files: tuple[Path, ...], form: type) -> polars.LazyFrame:
    """Return the rows of parts. Every reader goes through here, so none reads damaged bytes."""
    pl = polars_module()
    sealed = [path for path in files if parts.has_sealed_name(path)]
    for path in sealed:
        parts.check_sealed_part(path, form)
    # polars checks no checksums, so pyarrow reads unsealed parts
    frames = [
        pl.from_arrow(parts.read_part(path, form)).lazy() for path in files if path not in sealed
    ]
    if sealed:
        frames.append(_scan_parquet(sealed, form))
    return pl.concat([pl.LazyFrame(schema=polars_schema(form)), *frames])  # type: ignore[no-any-return]


def _scan_parquet(files: list[Path], form: type) -> polars.LazyFrame:
    pl = polars_module()
    return pl.scan_parquet(  # type: ignore[no-any-return]
        files,
        schema=polars_schema(form),
        glob=False,
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=pl.ScanCastOptions(
            missing_struct_fields="insert", extra_struct_fields="ignore"
        ),
    )


def _rows_not_there(
    table: pyarrow.Table, there: polars.LazyFrame, key: tuple[str, ...]
) -> pyarrow.Table:
    """Return the rows of a table whose key is neither in the store nor in an earlier row."""
    pl = polars_module()
    keys = pl.from_arrow(table.select(key)).lazy().with_row_index("place")
    fresh = keys.unique(key, keep="first").join(there.select(key), on=key, how="anti")
    return table.take(fresh.select("place").collect()["place"].sort().to_arrow())


def _refuse_others(table: pyarrow.Table, there: polars.LazyFrame, folder: Path) -> None:
    """Refuse rows of one run and place that differ: dropping the later one would lose data."""
    pl = polars_module()
    compared = [name for name in table.column_names if name not in (*ROW_KEY, *_UNCOMPARED)]
    rows = pl.from_arrow(table.select([*ROW_KEY, *compared])).lazy()
    held = there.select(rows.collect_schema().names()).join(rows, on=ROW_KEY, how="semi")
    first = pl.concat([held, rows]).unique(ROW_KEY, keep="first", maintain_order=True)
    # null counts as equal: an older part may lack the column
    differs = pl.any_horizontal(pl.col(name) != pl.col(f"{name}_first") for name in compared)
    others = (
        rows.join(first, on=ROW_KEY, suffix="_first")
        .filter(differs)
        .group_by("run_id")
        .agg(pl.len(), pl.col("sequence").min())
        .sort("run_id")
        .collect()
    )
    if len(others):
        run, count, place = others.row(0)
        more = f", and rows of {len(others) - 1} other runs" if len(others) > 1 else ""
        raise InputError(
            f"{count} rows of run {run}, from sequence {place} on{more} differ from rows of the "
            f"same run and sequence in {folder} or given earlier: copies of one log were continued "
            "separately, or the file was read in another way before. Nothing was written. Keep "
            "them in a separate store"
        )


def _as_referred_to(facts: pyarrow.Table, rows: pyarrow.Table) -> pyarrow.Table:
    """Return facts in the order of rows that refer to them, so that similar ones are neighbours."""
    pl = polars_module()
    named = pl.from_arrow(rows.select(["facts_id"])).lazy().with_row_index("place")
    places = named.drop_nulls().unique("facts_id", keep="first")
    ordered = (
        pl.from_arrow(facts).lazy().join(places, left_on="id", right_on="facts_id", how="left")
    )
    return ordered.sort("place", "text", nulls_last=True).drop("place").collect().to_arrow()


def _gather_tables(
    paths: list[Path], salvage: bool
) -> tuple[Tables, dict[outcomelog.RowKey, str], tuple[str, ...]]:
    """Return the content of stores, parts and logs: tables, facts of other rows, and faults."""
    gathered, faults = [Tables.of()], list[str]()
    facts_of: dict[outcomelog.RowKey, str] = {}
    for path in paths:
        for form, file in _parts_and_logs(path):
            if file.suffix != ".parquet":
                log = outcomelog.read(file, whole=True)
                gathered.append(Tables.of(log.rows, log.sources, log.facts))
                facts_of.update(log.facts_of)
                faults += log.faults
            else:
                held = {_FIELDS[form]: _read_table(file, form, salvage, faults)}
                gathered.append(replace(Tables.of(), **held))
    return Tables.together(gathered), facts_of, tuple(faults)


def _read_table(file: Path, form: type, salvage: bool, faults: list[str]) -> pyarrow.Table:
    if not salvage:
        return parts.read_part(file, form)
    table, damage = parts.salvage_row_groups(file, form)
    if damage is not None:
        faults.append(str(damage))
    return table


def _parts_and_logs(path: Path) -> Iterator[tuple[type, Path]]:
    """Yield the files that a path stands for, each with the form of its rows."""
    if path.is_dir():
        store = Store(path)
        yield from ((form, file) for form in _FOLDERS for file in store.files(form))
    elif not path.exists():
        raise InputError(f"{path} does not exist")
    elif path.suffix == ".parquet":
        yield parts.form_of_part(path), path
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        yield Outcome, path
    else:
        raise InputError(
            f"{path} is not a store, a part (*.parquet) or a log (*.jsonl, *.jsonl.gz); "
            "for other formats: solkit data import"
        )
