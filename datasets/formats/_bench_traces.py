"""Traces of FlashInfer-Bench and SOL-ExecBench, which share their records: one line per run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solkit.core import Outcome, Verdict
from solkit.datasets.formats._base import (
    Document,
    Imported,
    Labels,
    converted,
    imported_row,
    instant,
)
from solkit.datasets.identifiers import MESSAGE_LIMIT

_STATUSES = {
    "PASSED": Verdict.CORRECT,
    "INCORRECT_SHAPE": Verdict.WRONG,
    "INCORRECT_NUMERICAL": Verdict.WRONG,
    "INCORRECT_DTYPE": Verdict.WRONG,
    "RUNTIME_ERROR": Verdict.CRASHED,
    "COMPILE_ERROR": Verdict.DOES_NOT_COMPILE,
    "TIMEOUT": Verdict.TIMED_OUT,
}

SOL_STATUSES: Mapping[str, Verdict] = {
    "REWARD_HACK": Verdict.CHEATING,
    "INVALID_REFERENCE": Verdict.NOT_MEASURED,
}
"""Statuses that only SOL-ExecBench has."""

LIBRARIES = {"torch": "torch_version", "triton": "triton_version", "cuda": "cuda_version"}
"""Names of `environment.libs`, each with the field of `Outcome`."""


def is_trace(record: Any) -> bool:
    """Tell whether a line is a trace, or a workload without a run."""
    return isinstance(record, dict) and {"definition", "workload"} <= record.keys()


def read(document: Document, labels: Labels, origin: str) -> Imported:
    """Return the rows of a file of traces; workloads without a run are skipped."""

    def convert_record(record: dict[str, Any]) -> Outcome | None:
        if record is None:
            raise ValueError("is not JSON")
        evaluation = record.get("evaluation")
        return (
            _outcome_of_trace(record, evaluation, document, labels, origin) if evaluation else None
        )

    return converted(document.path, document.lines(), convert_record)


def _outcome_of_trace(
    record: dict[str, Any],
    evaluation: dict[str, Any],
    document: Document,
    labels: Labels,
    origin: str,
) -> Outcome:
    status, environment = evaluation["status"], evaluation["environment"]
    performance, correctness = (evaluation.get(key) or {} for key in _RESULTS)
    hardware = environment.get("hardware") or environment.get("device")
    libraries = environment.get("libs") or {}
    failed = status != "PASSED"
    error = correctness.get("max_absolute_error")
    return imported_row(
        origin,
        labels,
        record["definition"],
        record["workload"]["axes"],
        record["solution"],
        implementation=record["solution"],
        params={},
        device=document.device(labels, hardware),
        device_name=hardware,
        created=instant(evaluation["timestamp"]),
        verdict={**_STATUSES, **SOL_STATUSES}[status],
        message=f"{status}: {evaluation.get('log') or ''}"[:MESSAGE_LIMIT] if failed else None,
        time_ms=performance.get("latency_ms"),
        reference_ms=performance.get("reference_latency_ms"),
        max_error=None if error is None else float(error),
        extra={
            "workload": record["workload"].get("uuid"),
            "max_relative_error": correctness.get("max_relative_error"),
        },
        **{field: libraries.get(name) for name, field in LIBRARIES.items()},
    )


_RESULTS = ("performance", "correctness")
