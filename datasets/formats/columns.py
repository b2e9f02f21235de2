"""Brute-forced search spaces in columns: the parameters, then ``time_ms``; a list for each.

A condensed form in which the AutoTuningAssociation's benchmark_hub is often shared::

    {"kernel": "convolution_kernel", "device": "NVIDIA A100-PCIE-40GB", "params": {...},
     "columns": ["block_size_x", ..., "time_ms"], "rows": [[16, ..., 3.875], ...]}

Times are milliseconds; ``null`` if the configuration failed to compile or to run.
"""

from __future__ import annotations

from typing import Any

from solkit.core import Outcome, Verdict
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
)

_TIME = "time_ms"


def _recognises(document: Document) -> bool:
    return document.has("kernel", "columns", "rows") and _TIME in document.json["columns"]


def _read_document(document: Document, labels: Labels) -> Imported:
    table = document.json
    device = document.device(labels, table.get("device"))

    def convert_record(values: list[Any]) -> Outcome:
        params = dict(zip(table["columns"], values, strict=True))
        time_ms = params.pop(_TIME)
        return imported_row(
            "columns",
            labels,
            table["kernel"],
            {},
            table["kernel"],
            device=device,
            device_name=table.get("device") or None,
            params=params,
            verdict=Verdict.CRASHED if time_ms is None else Verdict.CORRECT,
            message="It failed to compile or to run." if time_ms is None else None,
            time_ms=time_ms,
            chosen_by="exhaustive",
            created=document.changed,
        )

    rows = ((f"row {number}", row) for number, row in enumerate(table["rows"]))
    return converted(document.path, rows, convert_record)


FORMAT = Format("columns", "brute-forced spaces in columns", _recognises, _read_document)
