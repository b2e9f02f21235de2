"""A plain table of times in CSV: a problem, its sizes, the GPU and a time in each row.

::

    problem,device,M,N,time_us,solution
    matmul,h100-sxm,4096,4096,210,mine

Columns: ``problem`` (or ``kernel``, ``name``); one time with its unit (``time_ms``, ``time_us``,
``time_ns``, ``time_s``, or ``time`` as text such as ``12us``); ``device`` (or ``gpu``) unless the
user names it; ``shape`` as ``M=4096,N=1000``; ``solution`` (or ``implementation``); ``l2``
(``cold`` or ``warm``). Every other column is a size.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
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

__all__ = ["FORMAT", "RESOLUTION_MS"]

RESOLUTION_MS = "resolution_ms"
"""The key of `Outcome.extra` that holds half a unit of the last digit of the time, in ms."""

_PROBLEM = ("problem", "kernel", "name")
_DEVICE = ("device", "gpu")
_SOLUTION = ("solution", "implementation")
_TIMES = ("time_ms", "time_us", "time_ns", "time_s", "time")


def _recognises(document: Document) -> bool:
    columns = document.text.split("\n", 1)[0].strip().lower().split(",")
    is_timed = sum(name in columns for name in _TIMES) == 1
    return is_timed and any(name in columns for name in _PROBLEM)


def _read(document: Document, labels: Labels) -> Imported:
    table = csv.DictReader(io.StringIO(document.text))
    table.fieldnames = [name.strip() for name in table.fieldnames or ()]

    def row(cells: dict[str, str]) -> Outcome:
        if None in cells or None in cells.values():
            raise ValueError(f"has not the {len(table.fieldnames or ())} cells of the heading")
        named = {name.lower(): cell.strip() for name, cell in cells.items()}
        problem, gpu = _cell(named, _PROBLEM), _cell(named, _DEVICE)
        time_ms, resolution_ms = _time_of(named)
        if not problem:
            raise ValueError("names no problem")
        return imported_row(
            "times_table",
            labels,
            problem,
            _shape(cells),
            problem,
            implementation=_cell(named, _SOLUTION) or None,
            params={},
            device=document.device(labels, gpu),
            device_name=gpu or None,
            created=document.changed,
            verdict=Verdict.CORRECT,
            time_ms=time_ms,
            l2=named.get("l2") or None,
            extra={RESOLUTION_MS: resolution_ms},
        )

    records = ((f"line {number}", cells) for number, cells in enumerate(table, 2))
    return converted(document.path, records, row)


def _cell(cells: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((cells[name] for name in names if cells.get(name)), "")


def _time_of(cells: Mapping[str, str]) -> tuple[float, float]:
    name = next((name for name in _TIMES if name in cells), None)
    if name is None:
        raise ValueError(f"has no time: no column is called {' or '.join(_TIMES)}")
    return milliseconds(cells[name] + name.removeprefix("time").removeprefix("_"))


def _shape(cells: Mapping[str, str]) -> dict[str, Any]:
    labels = {*_PROBLEM, *_DEVICE, *_SOLUTION, *_TIMES, "shape", "l2"}
    pairs = [(name, cell) for name, cell in cells.items() if name.lower() not in labels and cell]
    for part in _cell({name.lower(): cell for name, cell in cells.items()}, ("shape",)).split(","):
        name, equals, value = part.partition("=")
        if equals:
            pairs.append((name, value))
        elif part.strip():
            raise ValueError(f"{part.strip()!r} in the shape is not NAME=VALUE")
    return {name.strip(): _value(cell.strip()) for name, cell in pairs}


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


FORMAT = Format(
    "times_table", "a plain table of times (CSV: problem, sizes, time)", _recognises, _read
)
