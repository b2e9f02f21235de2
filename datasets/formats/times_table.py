"""A plain table of times in CSV or JSON: a problem, its sizes, the GPU and a time in each row.

::

    problem,device,M,N,time_us,solution
    matmul,h100-sxm,4096,4096,210,mine

Columns: ``problem`` (or ``kernel``, ``op``, ``name``); one time, called ``time``, ``latency``,
``runtime`` or ``duration`` with its unit (``time_us``, ``latency (ms)``, or ``us`` alone), or
``time`` as text such as ``12us``; ``device`` (or ``gpu``) unless the user names it; ``shape`` as
``M=4096,N=1000``; ``solution`` (or ``implementation``, ``provider``); ``l2`` (``cold`` or
``warm``). Every other column is a size. The columns are set apart by commas, semicolons or tabs; in
JSON a row is an object of a list, or of a line.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from solkit.core import Outcome, Verdict
from solkit.core.quantities import milliseconds
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
)

RESOLUTION_MS = "resolution_ms"
"""The key of `Outcome.extra` that holds half a unit of the last digit of the time, in ms."""

_PROBLEM = ("problem", "kernel", "kernel_name", "op", "operator", "name")
_DEVICE = ("device", "gpu", "gpu_name", "device_name")
_SOLUTION = ("solution", "implementation", "provider", "backend")
_TIME = re.compile(
    r"(?:(?:time|latency|runtime|duration)(?:[ _]*[(\[]?(ns|[uµμ]s|ms|s)[)\]]?)?|(ns|[uµμ]s|ms))"
)
_L2 = ("cold", "warm")
_PLAIN = (str, int, float, bool, type(None))


def _delimiter(heading: str) -> str:
    return max(",;\t", key=heading.count)


def _recognises(document: Document) -> bool:
    first = document.json[0] if isinstance(document.json, list) and document.json else None
    record = first if isinstance(first, dict) else document.first
    if isinstance(record, dict):
        columns = [name.lower() for name in record]
    else:
        heading = document.text.split("\n", 1)[0].strip().lower()
        columns = [name.strip(' "') for name in heading.split(_delimiter(heading))]
    is_timed = sum(_TIME.fullmatch(name) is not None for name in columns) == 1
    return is_timed and any(name in columns for name in _PROBLEM)


def _read_document(document: Document, labels: Labels) -> Imported:
    def convert_record(cells: dict[str, str]) -> Outcome:
        named = {name.lower(): cell for name, cell in cells.items()}
        problem, gpu = _cell_of_row(named, _PROBLEM), _cell_of_row(named, _DEVICE)
        time_ms, resolution_ms = _time_and_resolution(named)
        if not problem:
            raise ValueError("names no problem")
        l2 = named.get("l2", "").lower()
        if l2 and l2 not in _L2:
            raise ValueError(f"l2 is {l2!r}, not one of: {', '.join(_L2)}")
        return imported_row(
            "times_table",
            labels,
            problem,
            _sizes_of_row(cells),
            problem,
            implementation=_cell_of_row(named, _SOLUTION) or None,
            params={},
            device=document.device(labels, gpu),
            device_name=gpu or None,
            created=document.changed,
            verdict=Verdict.CORRECT,
            time_ms=time_ms,
            l2=l2 or None,
            extra={RESOLUTION_MS: resolution_ms},
        )

    return converted(
        document.path,
        _table_records(document),
        lambda record: convert_record(_cells_by_name(record)),
    )


def _table_records(document: Document) -> Iterator[tuple[str, Any]]:
    """Yield each record with its place; for a line that is no record the number of cells."""
    if isinstance(document.json, list):
        yield from ((f"row {number}", record) for number, record in enumerate(document.json, 1))
        return
    if isinstance(document.first, dict):
        yield from document.lines()
        return
    heading = document.text.split("\n", 1)[0]
    table = csv.DictReader(io.StringIO(document.text), delimiter=_delimiter(heading))
    names = [name.strip() for name in table.fieldnames or ()]
    table.fieldnames = names
    for record in table:
        whole = None not in record and None not in record.values()
        yield f"line {table.line_num}", record if whole else len(names)


def _cells_by_name(record: Any) -> dict[str, str]:
    """Return the cells of a record as text.

    Raises:
        ValueError: it is a damaged one.
    """
    if isinstance(record, int):
        raise ValueError(f"has not the {record} cells of the heading")
    if not isinstance(record, dict):
        raise ValueError("is no JSON object")
    cells = {}
    for name, value in record.items():
        if isinstance(value, dict):
            value = ",".join(f"{size}={number}" for size, number in value.items())
        if not isinstance(value, _PLAIN):
            raise ValueError(f"{name} is {json.dumps(value)}: neither a number nor text")
        cells[name] = "" if value is None else str(value).strip()
    return cells


def _cell_of_row(cells: Mapping[str, str], names: Iterable[str]) -> str:
    return next((cells[name] for name in names if cells.get(name)), "")


def _time_and_resolution(cells: Mapping[str, str]) -> tuple[float, float]:
    times = [(cells[name], match) for name in cells if (match := _TIME.fullmatch(name))]
    if len(times) != 1:
        names = ", ".join(match[0] for _, match in times) or "none"
        raise ValueError(f"one column must hold a time, such as time_us; these do: {names}")
    ((cell, match),) = times
    return milliseconds(cell + (match[1] or match[2] or ""))


def _sizes_of_row(cells: Mapping[str, str]) -> dict[str, Any]:
    labels = {*_PROBLEM, *_DEVICE, *_SOLUTION, "shape", "l2"}
    pairs = [
        (name, cell)
        for name, cell in cells.items()
        if cell and name.lower() not in labels and not _TIME.fullmatch(name.lower())
    ]
    for part in _cell_of_row(
        {name.lower(): cell for name, cell in cells.items()}, ("shape",)
    ).split(","):
        name, equals, value = part.partition("=")
        if equals:
            pairs.append((name, value))
        elif part.strip():
            raise ValueError(f"{part.strip()!r} in the shape is not NAME=VALUE")
    return {name.strip(): _parse_value(cell.strip()) for name, cell in pairs}


def _parse_value(text: str) -> Any:
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        # tables with gaps print whole numbers as 4096.0
        return int(value) if value == value // 1 else value
    return {"true": True, "false": False}.get(text.lower(), text)


FORMAT = Format(
    "times_table",
    "a plain table of times (CSV or JSON: problem, sizes, time)",
    _recognises,
    _read_document,
)
