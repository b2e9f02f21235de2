"""Run details of kernelbench.com: one JSON file a run, with a time for each shape of a problem.

https://github.com/Infatoshi/kernelbench.com (``public/data/rundetail``). A shape is told by its
place in the ``SHAPES`` of the problem's ``shapes.py``. Times are milliseconds with three decimals.
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

SHAPE_INDEX = "shape_index"
"""The size of `Outcome.shape` that holds the place of a shape in the problem's ``SHAPES``."""


def _recognises(document: Document) -> bool:
    return document.has("run_id", "problem", "shapes", "correct")


def _read_document(document: Document, labels: Labels) -> Imported:
    run = document.json

    def convert_record(shape: dict[str, Any]) -> Outcome:
        return imported_row(
            "kernelbench_com",
            labels,
            run["problem"],
            {SHAPE_INDEX: int(shape["idx"])},
            "Model",
            implementation=run["run_id"],
            params={},
            device=document.device(labels, run.get("gpu")),
            device_name=run.get("gpu") or None,
            created=document.changed,
            verdict=Verdict.CORRECT if run["correct"] else Verdict.WRONG,
            message=None if run["correct"] else str(run.get("failure_reason") or "not correct"),
            method="events",
            time_ms=float(shape["ms"]) if shape.get("ms") else None,
            extra={"label": shape.get("label"), "verdict_of_source": run.get("annotation_verdict")},
        )

    shapes = ((f"shape {shape.get('idx')}", shape) for shape in run["shapes"] or ())
    return converted(document.path, shapes, convert_record)


FORMAT = Format("kernelbench_com", "run details of kernelbench.com", _recognises, _read_document)
