"""Parts: the Parquet files of a store. Each is written whole under another name, then renamed.

A part never changes. An unfinished file has another name and is not a part.

A part is *sealed*: its name ends in the SHA-256 of its footer, and the footer has the SHA-256 of
each row group. So every byte is checked, and damage to one row group costs no other. Renamed parts,
and parts of versions without seals, have only the checksums of their pages, which cover neither the
footer nor the page headers.
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

from solkit.core import Outcome, Source, StoredFacts
from solkit.core.values import SCHEMA_VERSION
from solkit.datasets.outcomelog import sync_folder
from solkit.datasets.tables import arrow_schema, pyarrow_module
from solkit.datasets.version1 import LAUNCHES
from solkit.errors import InputError, TraceError

if TYPE_CHECKING:
    import pyarrow

PART_BYTES = 15_000_000
"""No part with more than one row is larger."""

PART_ROWS = 50_000
"""No part has more rows: about 15 MB."""

ROW_GROUP = 4096
"""Rows that are read or skipped together."""

_TIGHT_ROW_GROUP = 16_384  # of sets to publish: a quarter of the dictionaries

_LEVEL, _TIGHT_LEVEL = 9, 19
"""Levels of zstd. The latter takes 10 to 40 times as long, and reading takes no longer."""

_TEXT_PAGE_BYTES = 64_000_000  # a page a row group: texts repeat what was far before them

UNFINISHED = ".part-"
"""Prefix of the names of files that are being written."""

_KEY = b"solkit.schema"
_SEALS = b"solkit.row_groups"  # JSON: where each row group ends, and the SHA-256 of its bytes
_SEALED = re.compile(r"-([0-9a-f]{64})$")
_FORMS: dict[type, tuple[str, int]] = {
    Outcome: ("solkit.data", SCHEMA_VERSION),
    Source: ("solkit.sources", 1),
    StoredFacts: ("solkit.facts", 1),
}
"""The name of each form, and its newest version."""


@dataclass(frozen=True)
class Damage:
    """Damage of a part.

    Attributes:
        path: the file.
        reason: a sentence.
        rows: how many it should have; ``None`` if unknown.
        readable: how many can be read.
    """

    path: Path
    reason: str
    rows: int | None = None
    readable: int = 0

    def __str__(self) -> str:
        if not self.readable:
            return f"{self.path}: {self.reason}; nothing can be read from it"
        return f"{self.path}: {self.reason}; {self.readable} of {self.rows} rows can be read"


def list_parts(folder: Path) -> tuple[Path, ...]:
    """Return the parts in a folder, oldest first; none if the folder is missing."""
    return tuple(sorted(file for file in folder.glob("*.parquet") if file.name[0] != "."))


def unfinished_files(folder: Path) -> Iterator[Path]:
    """Yield unfinished files."""
    return folder.glob(f"{UNFINISHED}*")


def empty_table(form: type) -> pyarrow.Table:
    """Return a table with the form's columns and no rows."""
    return arrow_schema(form).empty_table()


def write_parts(
    folder: Path, form: type, table: pyarrow.Table, tight: bool = False
) -> tuple[Path, ...]:
    """Write a table as parts. Each is complete and on disk before it gets its name.

    Args:
        folder: made if missing.
        form: of the rows.
        table: in the order to keep.
        tight: as small as possible, for a set to publish: slow.

    Raises:
        TraceError: a part could not be written; earlier parts were.
    """
    written: tuple[Path, ...] = ()
    for start in range(0, table.num_rows, PART_ROWS):
        written += _write_bounded_parts(folder, form, table.slice(start, PART_ROWS), tight)
    return written


def has_sealed_name(path: Path) -> bool:
    """Tell whether a part's name holds the checksum of its footer."""
    return _SEALED.search(path.stem) is not None


def form_of_part(path: Path) -> type:
    """Return the form of a file's rows, according to its footer; `Outcome` if it does not say."""
    with contextlib.suppress(*_unreadable()), pyarrow_module().parquet.ParquetFile(path) as file:
        name, _ = _form_in_metadata(file.metadata)
        return next((form for form, (form_name, _) in _FORMS.items() if form_name == name), Outcome)
    return Outcome


def check_sealed_part(path: Path, form: type) -> None:
    """Check that a sealed part is unchanged, without decoding it.

    Raises:
        InputError: it is damaged, foreign or too new; says what can be read.
    """
    damage = _fault_of_footer(path, form)
    if damage is None:
        with pyarrow_module().parquet.ParquetFile(path) as file:
            damage = _describe_damage(path, file.metadata, _changed_row_groups(path, file.metadata))
    _refuse_damaged(damage)


def read_part(path: Path, form: type) -> pyarrow.Table:
    """Return a part as a table of the form's columns; its seal and checksums are checked.

    Raises:
        InputError: it is damaged, foreign or too new; says what can be read.
    """
    table, damage = salvage_row_groups(path, form)
    _refuse_damaged(damage)
    return table


def salvage_row_groups(path: Path, form: type) -> tuple[pyarrow.Table, Damage | None]:
    """Return all readable row groups of a file, and the damage if some are not readable."""
    damage = _fault_of_footer(path, form)
    if damage is not None:
        return empty_table(form), damage
    tables = [empty_table(form)]
    with pyarrow_module().parquet.ParquetFile(path, page_checksum_verification=True) as file:
        faults = _changed_row_groups(path, file.metadata)
        for group in range(file.num_row_groups):
            if group not in faults:
                try:
                    tables.append(_fit_to_form(file.read_row_group(group), form))
                except _unreadable() as error:
                    faults[group] = _first_line(error)
        return pyarrow_module().concat_tables(tables), _describe_damage(path, file.metadata, faults)


def _refuse_damaged(damage: Damage | None) -> None:
    if damage is not None:
        saving = f": solkit data merge NEW {shlex.quote(str(damage.path))} --salvage"
        raise InputError(f"{damage}{saving if damage.readable else ''}")


def _write_bounded_parts(
    folder: Path, form: type, table: pyarrow.Table, tight: bool
) -> tuple[Path, ...]:
    try:
        data = _encode_part(form, table, tight)
        if len(data) > PART_BYTES and table.num_rows > 1:
            half = table.num_rows // 2
            halves = table.slice(0, half), table.slice(half)
            return tuple(
                path for half in halves for path in _write_bounded_parts(folder, form, half, tight)
            )
        return (_put_durably(folder, data),)
    except OSError as error:
        raise TraceError(
            f"{folder}: {table.num_rows} rows could not be written: "
            f"{error.strerror or error}; the files before it are unchanged"
        ) from error


def _put_durably(folder: Path, data: bytes) -> Path:
    """Write a part's bytes to a draft, and rename it once they are on disk."""
    seal = hashlib.sha256(_read_footer(io.BytesIO(data))).hexdigest()
    path = folder / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{seal}.parquet"
    draft = folder / f"{UNFINISHED}{path.stem}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_folder(folder)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    return path


def _encode_part(form: type, table: pyarrow.Table, tight: bool) -> bytes:
    """Return a part's bytes: Parquet, with the SHA-256 of each row group in the footer."""
    version = "{}/{}".format(*_FORMS[form]).encode()
    fitted = _fit_to_form(table, form).replace_schema_metadata({_KEY: version})
    if form is Outcome and fitted[LAUNCHES].null_count == fitted.num_rows:
        fitted = fitted.drop_columns([LAUNCHES])
    buffer, seals = io.BytesIO(), []
    rows = _TIGHT_ROW_GROUP if tight and form is Outcome else ROW_GROUP
    with pyarrow_module().parquet.ParquetWriter(
        buffer,
        fitted.schema,
        compression="zstd",
        compression_level=_TIGHT_LEVEL if tight else _LEVEL,
        write_page_checksum=True,
        **_column_options(form),
    ) as writer:
        end = 0
        for first in range(0, fitted.num_rows, rows):
            writer.write_table(fitted.slice(first, rows))
            start, end = end, buffer.tell()
            seals.append((end, hashlib.sha256(buffer.getvalue()[start:end]).hexdigest()))
        writer.add_key_value_metadata({_SEALS: json.dumps(seals)})
    return buffer.getvalue()


def _column_options(form: type) -> dict[str, Any]:
    """Return options for writing columns: no text or id of sources and facts occurs twice."""
    if form is Outcome:
        return {"dictionary_pagesize_limit": 8 << 20}
    return {"use_dictionary": False, "data_page_size": _TEXT_PAGE_BYTES}


def _read_footer(file: BinaryIO) -> bytes:
    """Read a Parquet file's end, after the row groups: the footer, its length, and ``PAR1``."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, size - 8 - length))
    return file.read()


def _fault_of_footer(path: Path, form: type) -> Damage | None:
    """Return what is wrong with a file according to its footer."""
    try:
        if not _has_its_footer(path):
            return Damage(path, "was cut off, or its footer is damaged (SHA-256)")
        with pyarrow_module().parquet.ParquetFile(path) as file:
            stored, rows = file.schema_arrow, file.metadata.num_rows
            name, version = _form_in_metadata(file.metadata)
    except _unreadable() as error:
        return Damage(path, f"is not a Parquet file, or was cut off ({_first_line(error)})")
    expected, newest = _FORMS[form]
    if name != expected:
        return Damage(path, f"is a foreign file, not {expected}")
    if not version.isdecimal() or int(version) > newest:
        return Damage(path, f"has version {version}; the newest that this SolKit reads is {newest}")
    for column in arrow_schema(form):
        if column.name in stored.names and not _has_type(
            stored.field(column.name).type, column.type
        ):
            reason = f"column {column.name} is {stored.field(column.name).type}, not {column.type}"
            return Damage(path, reason, rows, 0)
    return None


def _form_in_metadata(metadata: Any) -> tuple[str, str]:
    """Return the name and version of the form that a file says its rows have."""
    label = (metadata.metadata or {}).get(_KEY, b"").decode()
    name, _, version = label.partition("/")
    return name, version


def _has_its_footer(path: Path) -> bool:
    """Tell whether the footer has the checksum in the file's name; true if the name has none."""
    seal = _SEALED.search(path.stem)
    if seal is None:
        return True
    with path.open("rb") as file:
        return hashlib.sha256(_read_footer(file)).hexdigest() == seal[1]


def _changed_row_groups(path: Path, metadata: Any) -> dict[int, str]:
    """Return sealed row groups that changed since they were written."""
    try:
        seals = json.loads((metadata.metadata or {}).get(_SEALS, "[]"))
    except ValueError:
        return dict.fromkeys(range(metadata.num_row_groups), "its SHA-256 cannot be read")
    start, faults = 0, {}
    with path.open("rb") as file:
        for group, (end, seal) in enumerate(seals):
            if hashlib.sha256(file.read(end - start)).hexdigest() != seal:
                faults[group] = "its bytes have changed"
            start = end
    return faults


def _describe_damage(path: Path, metadata: Any, faults: dict[int, str]) -> Damage | None:
    """Return the damage of a file whose row groups have these faults."""
    if not faults:
        return None
    causes = [f"row group {group}: {faults[group]}" for group in sorted(faults)]
    lost = sum(metadata.row_group(group).num_rows for group in faults)
    reason = f"is damaged ({'; '.join(causes[:3])})"
    return Damage(path, reason, metadata.num_rows, metadata.num_rows - lost)


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what pyarrow raises for damaged files: text that is not UTF-8 is a `ValueError`."""
    return OSError, ValueError, pyarrow_module().ArrowException


def _has_type(actual: Any, expected: Any) -> bool:
    """Tell whether a column has the wanted type; an older struct may lack fields."""
    if pyarrow_module().types.is_list(expected) and pyarrow_module().types.is_list(actual):
        return _has_type(actual.value_type, expected.value_type)
    if pyarrow_module().types.is_struct(expected) and pyarrow_module().types.is_struct(actual):
        types = {field.name: field.type for field in expected}
        return all(
            _has_type(field.type, types[field.name]) for field in actual if field.name in types
        )
    return bool(actual == expected)


def _fit_to_form(table: pyarrow.Table, form: type) -> pyarrow.Table:
    """Return a table with only the form's columns, in order; null if an older part lacks one."""
    schema = arrow_schema(form)
    if table.schema.names == schema.names:
        return table.cast(schema)
    columns = {
        field.name: table[field.name].cast(field.type)
        if field.name in table.schema.names
        else pyarrow_module().nulls(table.num_rows, field.type)
        for field in schema
    }
    return pyarrow_module().table(columns)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
