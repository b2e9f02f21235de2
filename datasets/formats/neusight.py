"""NeuSight's latencies of PyTorch's operators: ``scripts/asplos/data/dataset*/{train,test}/*.csv``.

https://github.com/sitar-lab/NeuSight (``neusight/Dataset/collect.py``). Times are milliseconds of
CUDA events around one call, the mean of the shortest; L2 is not flushed. A product multiplies
(B, M, N) by (B, N, K): N is what is summed over. Everything is float32.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
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
from solkit.datasets.formats._public_problems import REFERENCE, RUNS, problem_source

_PROBLEM = "operators"
_PRODUCTS = {"B": "B", "M": "M", "N": "K", "K": "N"}
"""Columns by the names of public/operators.py, where K is what is summed over."""
_ROWS = {"B": "B", "H": "H"}


def _recognises(document: Document) -> bool:
    heading = document.text.split("\n", 1)[0].strip().split(",")
    return {"OPName", "Latency", "Device"} <= set(heading)


def _read_document(document: Document, labels: Labels) -> Imported:
    def convert_record(record: dict[str, str]) -> Outcome:
        operator = record["OPName"]
        gpu = record.get("Device") or None
        return imported_row(
            "neusight",
            labels,
            operator,
            {**_sizes_of_record(record), "operator": operator},
            record.get("Kernel Name") or operator,
            problem_sha256=problem_source(_PROBLEM).sha256,
            implementation="PyTorch",
            params={},
            device=document.device(labels, gpu),
            device_name=gpu,
            created=document.changed,
            verdict=Verdict.CORRECT,
            method="events",
            l2="warm",
            time_ms=float(record["Latency"]),
            extra={RUNS: REFERENCE, "torch_version": record.get("Torch Version")},
        )

    table = csv.DictReader(io.StringIO(document.text))
    records = ((f"line {table.line_num}", record) for record in table)
    imported = converted(document.path, records, convert_record)
    return replace(imported, sources=(problem_source(_PROBLEM),))


def _sizes_of_record(record: Mapping[str, str]) -> dict[str, Any]:
    columns = _PRODUCTS if record.get("K") else _ROWS
    return {own: int(record[name]) for own, name in columns.items()}


FORMAT = Format(
    "neusight", "NeuSight's latencies of PyTorch's operators", _recognises, _read_document
)
