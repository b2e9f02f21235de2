"""KernelBench's times of its references: ``results/timing/<hardware>/baseline_time_<how>.json``.

https://github.com/ScalingIntelligence/KernelBench (``scripts/generate_baseline_time.py``)::

    {"level1": {"19_ReLU.py": {"mean": 6.96, "std": ..., "min": ..., "max": ...,
                               "num_trials": 100, "hardware": "NVIDIA H100 PCIe"}}}

Times are milliseconds, rounded to three digits, of CUDA events around a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
from solkit.datasets.formats._public_problems import REFERENCE, RUNS

_STATISTICS = {"mean", "std", "min", "max"}


def _recognises(document: Document) -> bool:
    if not isinstance(document.json, dict):
        return False
    return any(
        isinstance(t, dict) and t.keys() >= _STATISTICS for _, t in _timed_references(document.json)
    )


def _timed_references(levels: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    for level, problems in levels.items():
        if re.fullmatch(r"level\d+", level) and isinstance(problems, dict):
            for file, times in problems.items():
                yield (level, file), times


def _read_document(document: Document, labels: Labels) -> Imported:
    def convert_record(timed: tuple[tuple[str, str], dict[str, Any]]) -> Outcome | None:
        (level, file), times = timed
        if times is None:  # a reference that failed
            return None
        number = re.match(r"(\d+)_", file)
        if number is None:
            raise ValueError(f"{file!r} does not begin with the problem's number")
        gpu = times.get("hardware")
        return imported_row(
            "kernelbench_timing",
            labels,
            "kernelbench",
            {"level": int(level.removeprefix("level")), "problem": int(number[1])},
            "Model",
            implementation=document.name.removesuffix(".json"),
            params={},
            device=document.device(labels, gpu),
            device_name=gpu,
            created=document.changed,
            verdict=Verdict.CORRECT,
            method="events",
            time_ms=float(times["mean"]),
            extra={
                "runtime_stats": {k: v for k, v in times.items() if k in _STATISTICS},
                **({RUNS: REFERENCE} if "compile" not in document.name else {}),
            },
        )

    records = (
        ("/".join(place), (place, times)) for place, times in _timed_references(document.json)
    )
    return converted(document.path, records, convert_record)


FORMAT = Format(
    "kernelbench_timing", "KernelBench's times of its references", _recognises, _read_document
)
