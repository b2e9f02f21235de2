"""The codec of records: frozen dataclasses as JSON values and back, driven by their type hints.

Every record that is written to a file or sent to another process goes through `to_json`, and comes
back through `from_json`, which checks each value: the other process may be hostile, the file of
another version. A form may have fields that are numbers, words, enums, times of day, records,
tuples (of one type, or of a fixed number of values), and mappings by name; each maybe ``None``.

- A field at its default is left out. An unknown field is ignored: later versions may add some.
- JSON has no numbers that are not finite: they become the words ``"NaN"``, ``"Infinity"`` and
  ``"-Infinity"``, which are read as numbers again.
- A tuple of records is a list of objects or, shorter, an object of columns; both are read.

It needs only Python, so that a GPU machine can write rows.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timezone
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from solkit.core.values import SCHEMA_VERSION, Value, finite

_T = TypeVar("_T")
_Reader = Callable[[Any], Any]

_NON_FINITE = ("NaN", "Infinity", "-Infinity")

# ---------------------------------------------------------------------------------------- writing


def to_json(record: Any, *, complete: bool = False, columns: bool = False) -> dict[str, Any]:
    """Return a record as JSON values.

    Args:
        record: a frozen dataclass.
        complete: also the fields that are at their defaults.
        columns: tuples of records as columns.
    """
    form: Any = type(record)
    return {
        name: json_value(value, complete=complete, columns=columns)
        for name, default in _defaults(form).items()
        if (value := getattr(record, name)) != default or complete or name == "schema_version"
    }


def chosen_fields(record: Any, *names: str) -> dict[str, Any]:
    """Return some fields of a record as JSON values, in this order, those at defaults too."""
    return {name: json_value(getattr(record, name), complete=True) for name in names}


def json_value(value: Any, *, complete: bool = False, columns: bool = False) -> Any:
    """Return a field's value for JSON; the options are those of `to_json`."""
    if value is None or type(value) in (bool, int, str):  # most are
        return value
    if type(value) is float:
        return finite(value)
    if is_dataclass(value):
        return to_json(value, complete=complete, columns=columns)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        if columns and value and is_dataclass(value[0]):
            return _columns(value)
        return [json_value(item, complete=complete, columns=columns) for item in value]
    if isinstance(value, Mapping):
        return {
            name: json_value(item, complete=complete, columns=columns)
            for name, item in value.items()
        }
    return finite(value)


def _columns(records: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the fields of records, without those that are at their defaults in all of them."""
    form: Any = type(records[0])
    return {
        name: [json_value(getattr(record, name), columns=True) for record in records]
        for name, default in _defaults(form).items()
        if any(getattr(record, name) != default for record in records)
    }


@functools.cache
def _defaults(form: Any) -> Mapping[str, Any]:
    """Return defaults by field; `MISSING`, which equals nothing else, if it has none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(form)
    }


# ---------------------------------------------------------------------------------------- reading


def from_json(form: type[_T], document: object) -> _T:
    """Return the record that `to_json` wrote.

    Args:
        form: the record's class.
        document: from `json.loads`.

    Raises:
        ValueError: a field is missing or invalid; names it.
    """
    if not isinstance(document, dict):
        raise ValueError(f"expected an object, not {type(document).__name__}")
    version = document.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ValueError(
            f"schema_version {version} is newer than {SCHEMA_VERSION}, the newest known"
        )
    record: _T = _record(form, document)
    return record


def _record(form: Any, values: Mapping[str, Any]) -> Any:
    """Return a record of JSON values by field."""
    arguments: dict[str, Any] = {}
    for name, (read, required) in _readers(form).items():
        if name in values:
            try:
                arguments[name] = read(values[name])
            except (TypeError, ValueError, OverflowError) as error:  # an int may be beyond floats
                raise ValueError(f"{name}: {error}") from None
        elif required:
            raise ValueError(f"{name} is missing")
    return form(**arguments)


def _records(form: Any, value: Any) -> tuple[Any, ...]:
    """Return records of a list of objects, or of an object of columns."""
    if not isinstance(value, dict):
        return tuple(from_json(form, item) for item in _typed(list, value))
    lengths = {name: len(_typed(list, column)) for name, column in value.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns differ in length: {lengths}")
    rows = zip(*value.values(), strict=True)
    return tuple(_record(form, dict(zip(value, row, strict=True))) for row in rows)


@functools.cache
def _readers(form: Any) -> Mapping[str, tuple[_Reader, bool]]:
    """Return by field the reader of its JSON value, and whether it is required."""
    hints = get_type_hints(form)
    return {
        name: (_reader(hints[name]), default is MISSING)
        for name, default in _defaults(form).items()
    }


def _reader(hint: Any) -> _Reader:
    """Return the reader of a JSON value for a field of that type; it raises `ValueError`.

    Raises:
        TypeError: no JSON value has that type.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint == Value:
        return _setting
    if origin in (Union, types.UnionType) and len(args) == 2 and types.NoneType in args:
        read_some = _reader(next(kind for kind in args if kind is not types.NoneType))
        return lambda value: None if value is None else read_some(value)
    if origin is Literal:
        return functools.partial(_one_of, args)
    if origin in (Union, types.UnionType) and all(get_origin(kind) is Literal for kind in args):
        return functools.partial(_one_of, tuple(word for kind in args for word in get_args(kind)))
    if origin is tuple:
        return _reader_of_tuple(args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read_item = _reader(args[1])
        return lambda value: {k: read_item(item) for k, item in _typed(dict, value).items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return functools.partial(from_json, hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint
    readers: dict[Any, _Reader] = {
        Any: lambda value: value,
        float: _number,
        datetime: _instant,
        **{kind: functools.partial(_typed, kind) for kind in (bool, int, str)},
    }
    if hint not in readers:
        raise TypeError(f"no JSON value has the type {hint}")
    return readers[hint]


def _reader_of_tuple(args: tuple[Any, ...]) -> _Reader:
    """Return the reader of a tuple: of any number of values of one type, or of one of each type."""
    if args[-1] is Ellipsis and is_dataclass(args[0]):
        return functools.partial(_records, args[0])
    if args[-1] is Ellipsis:
        read_item = _reader(args[0])
        return lambda value: tuple(map(read_item, _typed(list, value)))
    readers = [_reader(kind) for kind in args]

    def read(value: Any) -> tuple[Any, ...]:
        if len(_typed(list, value)) != len(readers):
            raise ValueError(f"expected {len(readers)} values, not {len(value)}")
        return tuple(read_item(item) for read_item, item in zip(readers, value, strict=True))

    return read


def _number(value: Any) -> float:
    if isinstance(value, float) or (isinstance(value, str) and value in _NON_FINITE):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a number, not {value!r:.80}")
    return float(value)


def _instant(value: Any) -> datetime:
    text = _typed(str, value).replace("Z", "+00:00")  # Python 3.10 does not read Z
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def _one_of(choices: tuple[Any, ...], value: Any) -> Any:
    if value not in choices:
        raise ValueError(f"expected one of {', '.join(map(repr, choices))}, not {value!r:.80}")
    return value


def _setting(value: Any) -> Any:
    """Return a size or parameter; those of other tools may be lists."""
    return float(value) if isinstance(value, str) and value in _NON_FINITE else value


def _typed(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"expected {kind.__name__}, not {value!r:.80}")
    return value
