"""Parts: the Parquet files of a store. Each is written whole under another name, then renamed.

A part is never changed. What a process left unfinished has another name, and is no part.

A part is *sealed*: its name ends in the SHA-256 of its footer, and the footer has the SHA-256 of
each row group, so that every byte is held against what was written, and one that changed costs no
other row group. Parts that were renamed, or written before there were seals, have the checksums of
their pages alone, which cover neither the footer nor what stands before a page.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

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
    "form_of",
    "is_sealed",
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
_SEALS = b"solkit.row_groups"  # JSON: where each row group ends, and the SHA-256 of its bytes
_SEALED = re.compile(r"-([0-9a-f]{64})$")
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
        if not self.readable:
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


def is_sealed(path: Path) -> bool:
    """Whether a part's name tells what its bytes must be."""
    return _SEALED.search(path.stem) is not None


def form_of(path: Path) -> type:
    """What a file's rows are by its own account; `TimedConfiguration` where it gives none."""
    with contextlib.suppress(*_unreadable()), arrow().parquet.ParquetFile(path) as file:
        name, _ = _told_form(file.metadata)
        return next((form for form, known in _FORMS.items() if known == name), TimedConfiguration)
    return TimedConfiguration


def check(path: Path, form: type) -> None:
    """See that a sealed part is as it was written, without decoding it.

    Raises:
        InputError: it is damaged, foreign, or of a newer form; says what can be saved.
    """
    damage = _fault(path, form)
    if damage is None:
        with arrow().parquet.ParquetFile(path) as file:
            damage = _damage(path, file.metadata, _changed(path, file.metadata))
    _refuse(damage)


def read(path: Path, form: type) -> pyarrow.Table:
    """A part as a table of the form's columns, held against its seal and checksums.

    Raises:
        InputError: it is damaged, foreign, or of a newer form; says what can be saved.
    """
    table, damage = salvaged(path, form)
    _refuse(damage)
    return table


def salvaged(path: Path, form: type) -> tuple[pyarrow.Table, Damage | None]:
    """All row groups of a file that can be read, and what is wrong where it is not all of them."""
    damage = _fault(path, form)
    if damage is not None:
        return empty(form), damage
    tables = [empty(form)]
    with arrow().parquet.ParquetFile(path, page_checksum_verification=True) as file:
        faults = _changed(path, file.metadata)
        for group in range(file.num_row_groups):
            if group not in faults:
                try:
                    tables.append(_fitted(file.read_row_group(group), form))
                except _unreadable() as error:
                    faults[group] = _first_line(error)
        return arrow().concat_tables(tables), _damage(path, file.metadata, faults)


def _refuse(damage: Damage | None) -> None:
    if damage is not None:
        saving = f": solkit data merge NEW {shlex.quote(str(damage.path))} --salvage"
        raise InputError(f"{damage}{saving if damage.readable else ''}")


def _write(folder: Path, form: type, table: pyarrow.Table) -> tuple[Path, ...]:
    try:
        data = _encode(form, table)
        if len(data) > PART_BYTES and table.num_rows > 1:
            half = table.num_rows // 2
            return _write(folder, form, table.slice(0, half)) + _write(
                folder, form, table.slice(half)
            )
        return (_put(folder, data),)
    except OSError as error:
        raise TraceError(
            f"{folder}: {table.num_rows} rows could not be written: "
            f"{error.strerror or error}; what was there before is"
        ) from error


def _put(folder: Path, data: bytes) -> Path:
    """Write a part's bytes under a draft's name, and name it once they are on disk."""
    seal = hashlib.sha256(_footer(io.BytesIO(data))).hexdigest()
    path = folder / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{seal}.parquet"
    draft = folder / f"{UNFINISHED}{path.stem}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        _sync(folder)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    return path


def _encode(form: type, table: pyarrow.Table) -> bytes:
    """A part's bytes: Parquet, with the SHA-256 of each row group in the footer."""
    version = f"{_FORMS[form]}/{SCHEMA_VERSION}".encode()
    fitted = _fitted(table, form).replace_schema_metadata({_KEY: version})
    buffer, seals = io.BytesIO(), []
    with arrow().parquet.ParquetWriter(
        buffer, fitted.schema, compression="zstd", compression_level=9, write_page_checksum=True
    ) as writer:
        end = 0
        for first in range(0, fitted.num_rows, ROW_GROUP):
            writer.write_table(fitted.slice(first, ROW_GROUP))
            start, end = end, buffer.tell()
            seals.append((end, hashlib.sha256(buffer.getvalue()[start:end]).hexdigest()))
        writer.add_key_value_metadata({_SEALS: json.dumps(seals)})
    return buffer.getvalue()


def _footer(file: BinaryIO) -> bytes:
    """What follows the row groups of a Parquet file: the footer, its length, and ``PAR1``."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, size - 8 - length))
    return file.read()


def _fault(path: Path, form: type) -> Damage | None:
    """What its footer says is wrong with a file."""
    try:
        if not _has_its_footer(path):
            return Damage(path, "was cut off, or its footer is damaged (SHA-256)")
        with arrow().parquet.ParquetFile(path) as file:
            found, rows = file.schema_arrow, file.metadata.num_rows
            name, version = _told_form(file.metadata)
    except _unreadable() as error:
        return Damage(path, f"is no Parquet file, or was cut off ({_first_line(error)})")
    if name != _FORMS[form]:
        return Damage(path, f"is a foreign file: no {_FORMS[form]}")
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        return Damage(path, f"is of form {version}, newer than {SCHEMA_VERSION}, the newest known")
    for column in arrow_schema(form):
        if column.name in found.names and not _holds(found.field(column.name).type, column.type):
            reason = f"column {column.name} is {found.field(column.name).type}, not {column.type}"
            return Damage(path, reason, rows, 0)
    return None


def _told_form(metadata: Any) -> tuple[str, str]:
    """The form that a file says its rows are of, and the version of that."""
    told = (metadata.metadata or {}).get(_KEY, b"").decode()
    name, _, version = told.partition("/")
    return name, version


def _has_its_footer(path: Path) -> bool:
    """Whether the footer is the one that the name tells; true where the name tells none."""
    seal = _SEALED.search(path.stem)
    if seal is None:
        return True
    with path.open("rb") as file:
        return hashlib.sha256(_footer(file)).hexdigest() == seal[1]


def _changed(path: Path, metadata: Any) -> dict[int, str]:
    """Row groups whose bytes are not those that were written; none known where none are sealed."""
    try:
        seals = json.loads((metadata.metadata or {}).get(_SEALS, "[]"))
    except ValueError:
        return dict.fromkeys(range(metadata.num_row_groups), "its SHA-256 cannot be read")
    start, faults = 0, {}
    with path.open("rb") as file:
        for group, (end, seal) in enumerate(seals):
            if hashlib.sha256(file.read(end - start)).hexdigest() != seal:
                faults[group] = "its bytes are not those that were written"
            start = end
    return faults


def _damage(path: Path, metadata: Any, faults: dict[int, str]) -> Damage | None:
    """What row groups with faults make of a file."""
    if not faults:
        return None
    told = [f"row group {group}: {faults[group]}" for group in sorted(faults)]
    lost = sum(metadata.row_group(group).num_rows for group in faults)
    reason = f"is damaged ({'; '.join(told[:3])})"
    return Damage(path, reason, metadata.num_rows, metadata.num_rows - lost)


def _unreadable() -> tuple[type[Exception], ...]:
    """What pyarrow raises at files that are damaged: text that is no UTF-8 is a `ValueError`."""
    return OSError, ValueError, arrow().ArrowException


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
