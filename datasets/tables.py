"""Rows, sources and facts as Arrow tables: one column per field, in the fields' order.

Mappings (parameters, shapes, ...) are columns of canonical JSON text, so that equal ones are equal
text that can be grouped by and is stored once per row group. So are records within a row. Samples
are stored in single precision.
"""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from solkit.core import Outcome, Verdict, canonical
from solkit.core.codec import from_json, json_value
from solkit.datasets.version1 import LAUNCHES, launches_type
from solkit.extras import library, needed

if TYPE_CHECKING:
    import polars
    import pyarrow

_T = TypeVar("_T")


def pyarrow_module() -> Any:
    """Return the module pyarrow, with its Parquet part.

    Raises:
        UnsupportedError: it is not installed.
    """
    with needed("data"):
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    return pyarrow


def polars_module() -> Any:
    """Return the module polars.

    Raises:
        UnsupportedError: it is not installed.
    """
    return library("polars")


def arrow_schema(form: type) -> pyarrow.Schema:
    """Return the columns of `Outcome` (those of version 1 as well), `Source` or `StoredFacts`."""
    hints = get_type_hints(form)
    columns = [(field.name, _arrow_type_of(hints[field.name])) for field in fields(form)]
    if form is Outcome:
        columns.append((LAUNCHES, launches_type(pyarrow_module())))
    return pyarrow_module().schema(columns)


def polars_schema(form: type) -> polars.Schema:
    """Return the same for polars."""
    frame = polars_module().from_arrow(arrow_schema(form).empty_table())
    return frame.schema  # type: ignore[no-any-return]


def table_of(form: type, records: Iterable[Any]) -> pyarrow.Table:
    """Return records of one form as a table."""
    rows, schema, hints = list(records), arrow_schema(form), get_type_hints(form)
    columns = {
        name: _cells_for_arrow(hints[name], [getattr(row, name) for row in rows])
        if name in hints
        else pyarrow_module().nulls(len(rows), schema.field(name).type)
        for name in schema.names
    }
    return pyarrow_module().table(columns, schema=schema)


def records_of(form: type[_T], table: pyarrow.Table) -> Iterator[_T]:
    """Yield the records of a table; missing columns have their default.

    Raises:
        ValueError: a cell is invalid.
    """
    readers, hints = _cell_converters(form), get_type_hints(form)  # type: ignore[arg-type]
    selected = table.select([name for name in table.column_names if name in hints])
    for batch in selected.to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            yield from_json(form, _with_mappings(row, readers))


def _holds_json_text(hint: Any) -> bool:
    """Tell whether a field holds records, which its column has as JSON text."""
    return is_dataclass(next(iter(get_args(hint)), None))


def _arrow_type_of(hint: Any) -> Any:
    """Return a field's Arrow type."""
    if get_origin(hint) in (Union, types.UnionType):
        return _arrow_type_of(get_args(hint)[0])
    if _holds_json_text(hint):
        return pyarrow_module().string()
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        narrow = {float: pyarrow_module().float32(), int: pyarrow_module().int32()}
        return pyarrow_module().list_(narrow.get(kind) or _arrow_type_of(kind))
    scalars = {
        int: pyarrow_module().int64(),
        float: pyarrow_module().float64(),
        bool: pyarrow_module().bool_(),
        datetime: pyarrow_module().timestamp("us", "UTC"),
    }
    return scalars.get(hint, pyarrow_module().string())  # words, and mappings as JSON


def _cells_for_arrow(hint: Any, values: list[Any]) -> list[Any]:
    """Return values of a field as Arrow takes them."""
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [canonical(value) for value in values]
    if hint is Verdict:
        return [value.value for value in values]
    if _holds_json_text(hint):
        return [canonical(json_value(value)) if value else None for value in values]
    if hint in (str, str | None):
        return [
            value if value is None or value.isascii() else _encodable_text(value)
            for value in values
        ]
    return values


def _encodable_text(text: str) -> str:
    """Return text that UTF-8 can encode: a tool's message may hold bytes that are not text."""
    return text.encode(errors="replace").decode()


@functools.cache
def _cell_converters(form: Any) -> Mapping[str, Callable[[Any], Any]]:
    """Return by column the converter of a cell for `from_json`, if there is one."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for name, hint in get_type_hints(form).items():
        origin = get_origin(hint)
        if (isinstance(origin, type) and issubclass(origin, Mapping)) or _holds_json_text(hint):
            readers[name] = json.loads
        elif hint is datetime:
            readers[name] = datetime.isoformat
    return readers


def _with_mappings(
    row: dict[str, Any], readers: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Return a row for `from_json`; null cells are left out."""
    return {
        name: readers[name](cell) if name in readers else cell
        for name, cell in row.items()
        if cell is not None
    }
