"""Parts: the Parquet files of a store. Each is written whole under another name, then renamed.

A part is never changed. What a process left unfinished has another name, and is no part.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solkit.datasets.record import SCHEMA_VERSION, Source, TimedConfiguration
from solkit.datasets.tables import arrow, arrow_schema
from solkit.errors import InputError, TraceError

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "PART_BYTES",
    "PART_ROWS",
    "UNFINISHED",
    "Damage",
    "check",
    "empty",
    "leftovers",
    "listed",
    "read",
    "salvaged",
    "write",
]

PART_BYTES = 15_000_000
"""No part is larger, if it has more than one row."""

PART_ROWS = 50_000
"""No part has more rows: some 15 MB."""

ROW_GROUP = 4096
"""Rows that are read or passed over together."""

UNFINISHED = ".part-"
"""What the names of files that are being written begin with."""

_KEY = b"solkit.schema"
_FORMS: dict[type, str] = {TimedConfiguration: "solkit.data", Source: "solkit.sources"}


@dataclass(frozen=True)
class Damage:
    """What is wrong with a file that should be a part.

    Attributes:
        path: the file.
        reason: a sentence.
        rows: how many it should have; ``None`` where that cannot be told.
        readable: how many of them can be saved.
    """

    path: Path
    reason: str
    rows: int | None = None
    readable: int = 0

    def __str__(self) -> str:
        if self.rows is None:
            return f"{self.path}: {self.reason}; nothing can be read from it"
        return f"{self.path}: {self.reason}; {self.readable} of {self.rows} rows can be read"


def listed(folder: Path) -> tuple[Path, ...]:
    """The parts in a folder, oldest first; none where there is no such folder."""
    return tuple(sorted(each for each in folder.glob("*.parquet") if each.name[0] != "."))


def leftovers(folder: Path) -> Iterator[Path]:
    """Files that a process began and did not finish."""
    return folder.glob(f"{UNFINISHED}*")


def empty(form: type) -> pyarrow.Table:
    """A table with the form's columns and no rows."""
    return arrow_schema(form).empty_table()


def write(folder: Path, form: type, table: pyarrow.Table) -> tuple[Path, ...]:
    """Write a table as parts, each on disk and whole before it has its name.

    Args:
        folder: where; made if need be.
        form: what its rows are.
        table: in the order in which it is to be kept.

    Raises:
        TraceError: a part could not be written; those before it are there.
    """
    written: tuple[Path, ...] = ()
    for start in range(0, table.num_rows, PART_ROWS):
        written += _write(folder, form, table.slice(start, PART_ROWS))
    return written


def check(path: Path, form: type) -> None:
    """See from its footer that a file is a part that can be read.

    Raises:
        InputError: it is damaged, foreign, or of a newer form; says what can be saved.
    """
    damage = _fault(path, form)
    if damage is not None:
        raise InputError(f"{damage} (see: solkit data verify)")


def read(path: Path, form: type) -> pyarrow.Table:
    """A part as a table of the form's columns, its checksums verified.

    Raises:
        InputError: it is damaged, foreign, or of a newer form; says what can be saved.
    """
    table, damage = salvaged(path, form)
    if damage is not None:
        raise InputError(f"{damage}: solkit data merge NEW {path} --salvage")
    return table


def salvaged(path: Path, form: type) -> tuple[pyarrow.Table, Damage | None]:
    """All row groups of a file that can be read, and what is wrong where it is not all of them."""
    damage = _fault(path, form)
    if damage is not None:
        return empty(form), damage
    with arrow().parquet.ParquetFile(path, page_checksum_verification=True) as file:
        tables, faults = [empty(form)], []
        for group in range(file.num_row_groups):
            try:
                tables.append(_fitted(file.read_row_group(group), form))
            except (OSError, arrow().ArrowException) as error:
                faults.append(f"row group {group}: {_first_line(error)}")
        rows = file.metadata.num_rows
    whole = arrow().concat_tables(tables)
    if not faults:
        return whole, None
    return whole, Damage(path, f"is damaged ({'; '.join(faults[:3])})", rows, whole.num_rows)


def _write(folder: Path, form: type, table: pyarrow.Table) -> tuple[Path, ...]:
    stamp = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(8)}"
    path, draft = folder / f"{stamp}.parquet", folder / f"{UNFINISHED}{stamp}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            _encode(file, form, table)
            file.flush()
            os.fsync(file.fileno())
        if draft.stat().st_size > PART_BYTES and table.num_rows > 1:
            draft.unlink()
            half = table.num_rows // 2
            return _write(folder, form, table.slice(0, half)) + _write(
                folder, form, table.slice(half)
            )
        draft.rename(path)
        _sync(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise TraceError(
            f"{folder}: {table.num_rows} rows could not be written: "
            f"{error.strerror or error}; what was there before is"
        ) from error
    return (path,)


def _encode(file: Any, form: type, table: pyarrow.Table) -> None:
    version = f"{_FORMS[form]}/{SCHEMA_VERSION}".encode()
    arrow().parquet.write_table(
        _fitted(table, form).replace_schema_metadata({_KEY: version}),
        file,
        compression="zstd",
        compression_level=9,
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
    )


def _fault(path: Path, form: type) -> Damage | None:
    """What its footer says is wrong with a file."""
    try:
        with arrow().parquet.ParquetFile(path) as file:
            found, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, arrow().ArrowException) as error:
        return Damage(path, f"is no Parquet file, or was cut off ({_first_line(error)})")
    name, _, version = (found.metadata or {}).get(_KEY, b"").decode().partition("/")
    if name != _FORMS[form]:
        return Damage(path, f"is a foreign file: no {_FORMS[form]}")
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        return Damage(path, f"is of form {version}, newer than {SCHEMA_VERSION}, the newest known")
    for column in arrow_schema(form):
        if column.name in found.names and not _holds(found.field(column.name).type, column.type):
            reason = f"column {column.name} is {found.field(column.name).type}, not {column.type}"
            return Damage(path, reason, rows, 0)
    return None


def _holds(found: Any, wanted: Any) -> bool:
    """Whether a column's type is the wanted one; an older struct may lack fields."""
    if arrow().types.is_list(wanted) and arrow().types.is_list(found):
        return _holds(found.value_type, wanted.value_type)
    if arrow().types.is_struct(wanted) and arrow().types.is_struct(found):
        known = {each.name: each.type for each in wanted}
        return all(_holds(each.type, known[each.name]) for each in found if each.name in known)
    return bool(found == wanted)


def _fitted(table: pyarrow.Table, form: type) -> pyarrow.Table:
    """A table with the form's columns alone, in their order; null where an older part has none."""
    schema = arrow_schema(form)
    if table.schema.names == schema.names:
        return table.cast(schema)
    columns = {
        each.name: table[each.name].cast(each.type)
        if each.name in table.schema.names
        else arrow().nulls(table.num_rows, each.type)
        for each in schema
    }
    return arrow().table(columns)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
