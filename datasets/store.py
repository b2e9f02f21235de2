"""A store of measured data: a folder of Parquet files that only ever gains some.

::

    my-data/
        parts/*.parquet      rows, `TimedConfiguration`; sorted, so that filters pass over most
        sources/*.parquet    the files that rows refer to, each once, `Source`

A row that is there already (the same run and place in it) is not written again, so that whatever
was interrupted is simply done again. Any number of processes on one file system may write: they
wait for one another. Reading is lazy and needs no lock.

What needs polars and pyarrow (``pip install 'solkit[data]'``) is imported where it is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.core import Verdict
from solkit.datasets import parts, runlog
from solkit.datasets.record import CONFIGURATION, ROW_KEY, Source, TimedConfiguration
from solkit.datasets.tables import arrow, polars_module, polars_schema, records_of, table_of
from solkit.errors import InputError, TraceError

if TYPE_CHECKING:
    import polars
    import pyarrow

__all__ = ["Added", "Store", "blaming", "configurations", "shipped"]

_SORTED_BY = ("device", "kind", "family", "problem_id", "kernel_id", "params", *ROW_KEY)
_COUNTING = tuple(
    each.value for each in (Verdict.CORRECT, Verdict.BEATS_ALGORITHM, Verdict.NOT_MEASURED)
)
"""Verdicts of rows whose time is one of the configuration's."""

_UNCOMPARED = ("created", "device", "kind", "schema_version", "launches")
"""What is passed over when rows of one run and place are compared.

The first are what `solkit.datasets.formats.read` does not tell attempts apart by: a file that is
imported again may have been touched, or be labelled otherwise. `launches` follow from the kernel
and its configuration, and take ten times as long to compare as all others.
"""

_ASIDE = re.compile(r"\n\n(?:Resolved plan until failure|This error occurred)|; valid columns")
"""What follows polars's reason, and is of no use to who wrote the SQL."""

_SHIPPED = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Added:
    """What became of rows that were given to a store.

    Attributes:
        rows: how many are new.
        known: how many were there already, or were given twice.
        sources: how many files are new.
        faults: what could not be taken, a sentence each.
    """

    rows: int
    known: int
    sources: int
    faults: tuple[str, ...] = ()


class Store:
    """A folder of measured data.

    Args:
        folder: where it is.
        create: whether it may be made; else it must be there.

    Raises:
        InputError: there is no store, or something else.
    """

    def __init__(self, folder: str | os.PathLike[str], create: bool = False) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{folder} is a file; a store is a folder")
        is_store = (self.folder / "parts").is_dir() or (self.folder / "sources").is_dir()
        is_free = not self.folder.exists() or not any(self.folder.iterdir())
        if not is_store and not (create and is_free):
            there = "is empty" if is_free else "holds other things"
            what = there if self.folder.exists() else "is not there"
            raise InputError(f"{folder} is no store: it {what}; expected a folder with parts/")

    # ---------------------------------------------------------------------------------- reading

    @property
    def parts(self) -> tuple[Path, ...]:
        """The files with rows, oldest first."""
        return parts.listed(self.folder / "parts")

    @property
    def source_parts(self) -> tuple[Path, ...]:
        """The files with sources, oldest first."""
        return parts.listed(self.folder / "sources")

    def scan(self) -> polars.LazyFrame:
        """Every row, lazily: only the columns and row groups that a query needs are read.

        Raises:
            InputError: a part is damaged or foreign.
        """
        return _scan(self.parts, TimedConfiguration)

    def sources(self) -> polars.LazyFrame:
        """Every `Source`, lazily.

        Raises:
            InputError: a part is damaged or foreign.
        """
        return _scan(self.source_parts, Source)

    def where(self, condition: str | None) -> polars.LazyFrame:
        """`scan`, of the rows that a condition in SQL holds for; of all without one.

        Raises:
            InputError: a part is damaged, or it is no condition on the columns.
        """
        rows = self.scan()
        if condition is None:
            return rows
        pl = polars_module()
        with blaming(condition):
            pl.sql_expr(condition)  # or its text might end the clause that it is put into
            # not as an expression: with those, polars compares times with no text
            context = pl.SQLContext({"data": rows})
            value = context.execute(f"SELECT ({condition}) AS value FROM data", eager=False)
            kind = value.collect_schema()["value"]
        if kind != pl.Boolean:
            raise InputError(f"{condition!r} is no condition: it is {kind}, not Boolean")
        return context.execute(f"SELECT * FROM data WHERE ({condition})", eager=False)  # type: ignore[no-any-return]

    def query(self, sql: str) -> polars.DataFrame:
        """The answer to a query in SQL, of the tables ``data`` and ``sources``.

        Raises:
            InputError: a part is damaged, or it is no query of these tables.
        """
        rows = self.scan()
        context = polars_module().SQLContext({"data": rows, "sources": self.sources()})
        with blaming(sql):
            return context.execute(sql, eager=True)  # type: ignore[no-any-return]

    def rows(self, frame: polars.LazyFrame | None = None) -> Iterator[TimedConfiguration]:
        """Rows as records: all, or those of a frame that was filtered or sorted from `scan`.

        Raises:
            InputError: a part is damaged, or a row is none.
        """
        return self._records((self.scan() if frame is None else frame).collect())

    def _records(self, found: polars.DataFrame) -> Iterator[TimedConfiguration]:
        try:
            yield from records_of(TimedConfiguration, found.to_arrow())
        except ValueError as error:
            raise InputError(
                f"{self.folder}: a row cannot be read: {error} (see: solkit data verify)"
            ) from error

    # ---------------------------------------------------------------------------------- writing

    def add(self, rows: Iterable[TimedConfiguration], sources: Iterable[Source] = ()) -> Added:
        """Put rows, and files that they refer to, into the store.

        Raises:
            InputError: a part that is there is damaged, a row has no run, or one says otherwise
                than that of the same run and place that is there, or was given before it. Nothing
                is written then.
            TraceError: they could not be written; what was there before is.
        """
        return self.add_tables(table_of(TimedConfiguration, rows), table_of(Source, sources))

    def add_tables(self, rows: pyarrow.Table, sources: pyarrow.Table) -> Added:
        """`add`, of tables as `solkit.datasets.tables.table_of` makes them."""
        if arrow().compute.any(arrow().compute.equal(rows["run_id"], "")).as_py():
            raise InputError("a row has no run_id: let a solkit.datasets.runlog.RunLog number it")
        with self._locked():
            there = self.scan()
            new_sources = _new(sources, self.sources(), ("sha256",))
            new_rows = _new(rows, there, ROW_KEY)
            _refuse_others(rows, there, self.folder)
            # files first: a row never refers to one that is not there yet
            parts.write(self.folder / "sources", Source, new_sources.sort_by("sha256"))
            order = [(name, "ascending") for name in _SORTED_BY]
            parts.write(self.folder / "parts", TimedConfiguration, new_rows.sort_by(order))
        return Added(new_rows.num_rows, rows.num_rows - new_rows.num_rows, new_sources.num_rows)

    def merge(self, paths: Iterable[str | os.PathLike[str]], salvage: bool = False) -> Added:
        """Put into the store what others hold.

        Args:
            paths: stores, parts (``*.parquet``) and files of runs (``*.jsonl``).
            salvage: take what can be read of damaged files, and tell the rest in `Added.faults`.

        Raises:
            InputError: one is none of these, or damaged; or as for `add`.
            TraceError: they could not be written; what was there before is.
        """
        rows, sources, faults = _gathered([Path(path) for path in paths], salvage)
        added = self.add_tables(rows, sources)
        return Added(added.rows, added.known, added.sources, faults)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait for other writers, and clear away what any that died left unfinished."""
        try:
            (self.folder / "parts").mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise TraceError(f"cannot write to {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for each in ("parts", "sources"):
                for draft in parts.leftovers(self.folder / each):
                    draft.unlink()
            yield
        finally:
            os.close(lock)


def shipped(name: str) -> Store:
    """A set that SolKit ships.

    Raises:
        InputError: there is none of that name.
    """
    known = sorted(each.parent.name for each in _SHIPPED.glob("*/parts"))
    if name not in known:
        nor = "" if Path(name).exists() else ", and no folder of that name"
        raise InputError(f"no set {name!r}{nor}; there are: {', '.join(known) or 'none'}")
    return Store(_SHIPPED / name)


def configurations(rows: polars.LazyFrame) -> polars.LazyFrame:
    """One row a configuration: its repeats together.

    Args:
        rows: of `Store.scan`, maybe filtered.

    Returns:
        The columns of `CONFIGURATION`, and ``family``, ``kind``, ``origin``, ``bound_ms``;
        ``tries`` and ``timed``, how often it was tried and how often that gave a time that counts
        (it was right, or nobody checked and a tool told its time); ``time_ms``, the median of
        those; ``spread``, the largest of those over the smallest.
    """
    pl = polars_module()
    time = pl.col("time_ms").filter(pl.col("verdict").is_in(_COUNTING))
    return rows.group_by(CONFIGURATION).agg(
        pl.col("family", "kind", "origin").first(),
        pl.col("bound_ms").drop_nulls().first(),
        tries=pl.len(),
        timed=time.count(),
        time_ms=time.median(),
        spread=time.max() / time.min(),
    )


@contextlib.contextmanager
def blaming(sql: str | None) -> Iterator[None]:
    """Tell what polars refuses in the body as an error in that SQL, if there is any.

    Some it refuses when it plans, some only when what `Store.where` gave is collected.

    Raises:
        InputError: polars raised; says why, and which columns there are where one is unknown.
    """
    errors = polars_module().exceptions
    try:
        yield
    except errors.PolarsError as error:
        if sql is None:
            raise
        reason = _ASIDE.split(str(error))[0]
        if isinstance(error, errors.ColumnNotFoundError):
            names = ", ".join(each.name for each in fields(TimedConfiguration))
            reason += f"\nthe columns of data: {names}"
        raise InputError(f"{sql!r}: {reason}") from error


def _scan(files: tuple[Path, ...], form: type) -> polars.LazyFrame:
    """The rows of parts. All readers come by here, so that none answers from damaged bytes."""
    pl = polars_module()
    sealed = [path for path in files if parts.is_sealed(path)]
    for path in sealed:
        parts.check(path, form)
    # polars knows no checksums: what has no seal is read here, by pyarrow
    frames = [pl.from_arrow(parts.read(path, form)).lazy() for path in files if path not in sealed]
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


def _new(given: pyarrow.Table, there: polars.LazyFrame, key: tuple[str, ...]) -> pyarrow.Table:
    """The rows of a table whose key neither the store nor an earlier row of the table has."""
    pl = polars_module()
    keys = pl.from_arrow(given.select(key)).lazy().with_row_index("place")
    fresh = keys.unique(key, keep="first").join(there.select(key), on=key, how="anti")
    return given.take(fresh.select("place").collect()["place"].sort().to_arrow())


def _refuse_others(given: pyarrow.Table, there: polars.LazyFrame, folder: Path) -> None:
    """Rows of one run and place must say the same, or dropping the later ones would lose data."""
    pl = polars_module()
    told = [name for name in given.column_names if name not in (*ROW_KEY, *_UNCOMPARED)]
    rows = pl.from_arrow(given.select([*ROW_KEY, *told])).lazy()
    held = there.select(rows.collect_schema().names()).join(rows, on=ROW_KEY, how="semi")
    first = pl.concat([held, rows]).unique(ROW_KEY, keep="first", maintain_order=True)
    # null is no difference: an older part may lack the column
    differs = pl.any_horizontal(pl.col(name) != pl.col(f"{name}_first") for name in told)
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
            f"{count} rows of run {run}, from sequence {place} on{more} are not those of the same "
            f"run and sequence that {folder} holds or that were given before: copies of one file "
            "have gone on apart, or it was read otherwise before. Nothing was written. Keep them "
            "in a store of their own; or, of a run's file, take the lines that the copies share "
            "out of one and give its first line another run_id"
        )


def _gathered(
    paths: list[Path], salvage: bool
) -> tuple[pyarrow.Table, pyarrow.Table, tuple[str, ...]]:
    rows, sources = [table_of(TimedConfiguration, ())], [table_of(Source, ())]
    faults: list[str] = []
    for path in paths:
        for form, file in _files(path):
            if file.suffix != ".parquet":
                run = runlog.read(file, whole=True)
                rows.append(table_of(TimedConfiguration, run.rows))
                sources.append(table_of(Source, run.sources))
                faults += run.faults
            else:
                table = _table(file, form, salvage, faults)
                (rows if form is TimedConfiguration else sources).append(table)
    return arrow().concat_tables(rows), arrow().concat_tables(sources), tuple(faults)


def _table(file: Path, form: type, salvage: bool, faults: list[str]) -> pyarrow.Table:
    if not salvage:
        return parts.read(file, form)
    table, damage = parts.salvaged(file, form)
    if damage is not None:
        faults.append(str(damage))
    return table


def _files(path: Path) -> Iterator[tuple[type, Path]]:
    """The files that hold what a path names, each with what its rows are."""
    if path.is_dir():
        found = Store(path)
        yield from ((TimedConfiguration, each) for each in found.parts)
        yield from ((Source, each) for each in found.source_parts)
    elif not path.exists():
        raise InputError(f"{path} is not there")
    elif path.suffix == ".parquet":
        yield parts.form_of(path), path
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        yield TimedConfiguration, path
    else:
        raise InputError(
            f"{path} is no store, part (*.parquet) or run's file (*.jsonl, *.jsonl.gz); "
            "other formats: solkit data import"
        )
