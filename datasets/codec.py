"""Names of kernels and problems, and records as JSON.

It needs only Python, so that a GPU machine can write rows: see `solkit.datasets.outcomelog`. In a
store, rows are Parquet: see `solkit.datasets.store`.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from solkit.core import Source, Value
from solkit.core.outcomes import SCHEMA_VERSION, finite
from solkit.errors import InputError

__all__ = [
    "MESSAGE_LIMIT",
    "defaults",
    "from_json",
    "kernel_id",
    "plain",
    "problem_id",
    "source_of",
    "to_json",
]

MESSAGE_LIMIT = 2000
"""Characters kept of `Outcome.message`."""

_ID_DIGITS = 16  # 64 bits: two of a million kernels share one with a chance of 3 in 10^8
_T = TypeVar("_T")


# ------------------------------------------------------------------------------------------ names


def kernel_id(source_sha256: str, problem_sha256: str, entry_point: str) -> str:
    """Return the name of a kernel: a function in the same files has the same name everywhere.

    Args:
        source_sha256: of the kernel's file, in hexadecimal.
        problem_sha256: of its reference's file, which may be the same.
        entry_point: the function's name.
    """
    text = "\0".join((source_sha256, problem_sha256, entry_point))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def problem_id(family: str, shape: Mapping[str, Value]) -> str:
    """Return the name of a problem, e.g. ``softmax/M=4096,N=1000,dtype=bfloat16``; sizes by name.

    Punctuation within a word is percent-encoded.
    """
    sizes = ",".join(f"{_word(name)}={_word(shape[name])}" for name in sorted(shape))
    return f"{_word(family)}/{sizes}"


def source_of(data: bytes, name: str) -> Source:
    """Return a file as a `Source`.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        return Source(hashlib.sha256(data).hexdigest(), name, data.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: {error}") from error


def _word(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(finite(value)).strip('"')
    return quote(text, safe=" .:+-_()[]")


# ------------------------------------------------------------------------------------------- JSON


def to_json(record: Any) -> dict[str, Any]:
    """Return a record (`Outcome`, `Source`, ...) as JSON values, without fields at defaults."""
    values = {}
    form: Any = type(record)
    for name, default in defaults(form).items():
        value = getattr(record, name)
        if value != default or name == "schema_version":
            values[name] = plain(value)
    return values


def from_json(form: type[_T], document: object) -> _T:
    """Return the record that `to_json` wrote; unknown fields are ignored.

    Args:
        form: `Outcome`, `Source` or another record.
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
    values: dict[str, Any] = {}
    for name, (reader, required) in _readers(form).items():  # type: ignore[arg-type]
        if name in document:
            try:
                values[name] = reader(document[name])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name}: {error}") from None
        elif required:
            raise ValueError(f"{name} is missing")
    return form(**values)


def plain(value: Any) -> Any:
    """Return a field's value for JSON."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    return to_json(value) if is_dataclass(value) else finite(value)


@functools.cache
def defaults(form: Any) -> Mapping[str, Any]:
    """Return defaults by field; `MISSING`, which equals nothing else, if it has none."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(form)
    }


@functools.cache
def _readers(form: Any) -> Mapping[str, tuple[Callable[[Any], Any], bool]]:
    """Return by field the reader of its JSON value, and whether it is required."""
    hints, initial = get_type_hints(form), defaults(form)
    return {name: (_reader(hints[name]), default is MISSING) for name, default in initial.items()}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return the reader of a JSON value for a field of that type; it raises `ValueError`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = _reader(args[0])
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        read_item = _reader(args[0])
        return lambda value: tuple(map(read_item, _of(list, value)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_of, dict)
    if isinstance(hint, type) and is_dataclass(hint):
        return functools.partial(from_json, hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint
    readers: dict[Any, Callable[[Any], Any]] = {float: _number, datetime: _instant}
    return readers.get(hint, functools.partial(_of, hint))


def _number(value: Any) -> float:
    if isinstance(value, float) or value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a number, not {value!r:.80}")
    return float(value)


def _instant(value: Any) -> datetime:
    return datetime.fromisoformat(_of(str, value)).astimezone(timezone.utc)


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"expected {kind.__name__}, not {value!r:.80}")
    return value
