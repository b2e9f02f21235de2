"""Rows and sources as Arrow tables: a column a field, in the fields' order.

Mappings (parameters, shapes, ...) are columns of canonical JSON text, so that equal ones are equal
text that can be grouped by and is stored once a row group. Samples are kept in single precision.
"""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from solkit.core import Verdict
from solkit.datasets.record import TimedDemand, TimedLaunch, canonical, from_json
from solkit.errors import UnsupportedError

if TYPE_CHECKING:
    import polars
    import pyarrow

__all__ = ["arrow", "arrow_schema", "polars_module", "polars_schema", "records_of", "table_of"]

_T = TypeVar("_T")
_NESTED = (TimedDemand, TimedLaunch)
"""Records that are cells of others."""


def arrow() -> Any:
    """The module pyarrow, with its Parquet part.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise UnsupportedError("a store needs pyarrow: pip install 'solkit[data]'") from error
    return pyarrow


def polars_module() -> Any:
    """The module polars.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise UnsupportedError("a store needs polars: pip install 'solkit[data]'") from error
    return polars


def arrow_schema(form: type) -> pyarrow.Schema:
    """The columns of `TimedConfiguration`, `Source` or another of `solkit.datasets.record`."""
    hints = get_type_hints(form)
    return arrow().schema([(each.name, _column(hints[each.name])) for each in fields(form)])


def polars_schema(form: type) -> polars.Schema:
    """The same, as polars has it."""
    frame = polars_module().from_arrow(arrow_schema(form).empty_table())
    return frame.schema  # type: ignore[no-any-return]


def table_of(form: type, records: Iterable[Any]) -> pyarrow.Table:
    """Records of one form as a table."""
    rows, schema = list(records), arrow_schema(form)
    columns = {
        name: _cells(hint, [getattr(row, name) for row in rows])
        for name, hint in get_type_hints(form).items()
        if name in schema.names
    }
    return arrow().table(columns, schema=schema)


def records_of(form: type[_T], table: pyarrow.Table) -> Iterator[_T]:
    """The records that a table holds; columns that it lacks are as by default.

    Raises:
        ValueError: a cell is nothing that such a record has.
    """
    readers = _mappings(form)  # type: ignore[arg-type]
    for batch in table.to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            yield from_json(form, _with_mappings(row, readers))


def _column(hint: Any) -> Any:
    """A field's Arrow type."""
    if get_origin(hint) in (Union, types.UnionType):
        return _column(get_args(hint)[0])
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        narrow = {float: arrow().float32(), int: arrow().int32()}
        return arrow().list_(narrow.get(kind) or _column(kind))
    if hint in _NESTED:
        return arrow().struct(list(arrow_schema(hint)))
    scalars = {
        int: arrow().int64(),
        float: arrow().float64(),
        bool: arrow().bool_(),
        datetime: arrow().timestamp("us", "UTC"),
    }
    return scalars.get(hint, arrow().string())  # words, and mappings as JSON


def _cells(hint: Any, values: list[Any]) -> list[Any]:
    """Values of a field as Arrow takes them."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [canonical(value) for value in values]
    if hint is Verdict:
        return [value.value for value in values]
    if origin is tuple and args[0] in _NESTED:
        return [[_nested(each) for each in records] for records in values]
    if hint in (str, str | None):
        return [value if value is None or value.isascii() else _utf8(value) for value in values]
    return values


def _utf8(text: str) -> str:
    """Text that UTF-8 can write: a tool's message may hold bytes that were no text."""
    return text.encode(errors="replace").decode()


def _nested(record: Any) -> dict[str, Any]:
    """A record as the cell of another."""
    return {name: _within(value) for name, value in vars(record).items()}


def _within(value: Any) -> Any:
    if isinstance(value, _NESTED):
        return _nested(value)
    return canonical(value) if isinstance(value, Mapping) else value


@functools.cache
def _mappings(form: Any) -> Mapping[str, Callable[[Any], Any]]:
    """By column: what turns its cell into what `from_json` takes, where it is not that already."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for name, hint in get_type_hints(form).items():
        origin, args = get_origin(hint), get_args(hint)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            readers[name] = json.loads
        elif origin is tuple and args[0] in _NESTED:
            readers[name] = functools.partial(_all_of, args[0])
        elif args and args[0] in _NESTED:
            readers[name] = functools.partial(_one_of, args[0])
        elif hint is datetime:
            readers[name] = datetime.isoformat
    return readers


def _one_of(form: Any, cell: dict[str, Any]) -> dict[str, Any]:
    return _with_mappings(cell, _mappings(form))


def _all_of(form: Any, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_one_of(form, cell) for cell in cells]


def _with_mappings(
    row: dict[str, Any], readers: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """A row as `from_json` takes it; what is null is left to the defaults."""
    return {
        name: readers[name](cell) if name in readers else cell
        for name, cell in row.items()
        if cell is not None
    }
