"""Traces of FlashInfer-Bench (https://github.com/flashinfer-ai/flashinfer-bench): JSON Lines.

A line is what one solution took on one workload: the chosen parameters of a kernel at a shape. The
schema is that of its ``data/trace.py``: a run that passed has both ``correctness`` and
``performance``. Errors that were not measured are ``"NaN"``, which it reads as a number.

``--set definition=NAME`` names the definition, else it is the problem's family. The axes are the
shape's integers; ``--map AXIS=SIZE`` renames one. A workload keeps its own UUID if the rows came
from a trace; else the UUID follows from the problem.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from solkit.core import Value
from solkit.datasets.formats._bench_traces import LIBRARIES
from solkit.errors import InputError
from solkit.tuner.emitters._base import (
    Emitter,
    File,
    Files,
    Request,
    chosen_of,
    gpu_driver_name,
    shape_text,
)
from solkit.tuner.tuning_results import TuningResult


def _trace_files(findings: Sequence[TuningResult], request: Request) -> Files:
    untimed = [finding for finding in findings if chosen_of(finding).time_ms is None]
    if untimed:
        raise InputError(
            f"{TRACES.name}: {untimed[0].kernel} at {shape_text(untimed[0])} has no time, and a "
            "trace tells one"
        )
    lines = [
        json.dumps(_trace_of_result(finding, request), separators=(",", ":"))
        for finding in findings
    ]
    return Files((File("", "\n".join(lines) + "\n"),))


def _trace_of_result(finding: TuningResult, request: Request) -> dict[str, Any]:
    return {
        "definition": str(request.constants.get("definition", _definition_family(finding))),
        "workload": {
            "axes": _definition_axes(finding, request),
            "inputs": {},
            "uuid": _solution_uuid(finding),
        },
        "solution": str(request.constants.get("solution", _solution_of_result(finding))),
        "evaluation": {
            "status": "PASSED",
            "environment": {"hardware": gpu_driver_name(finding), "libs": _libraries(finding)},
            "timestamp": finding.ended.isoformat(),
            "log": "",
            "correctness": _correctness(finding),
            "performance": _performance(finding),
        },
    }


def _definition_family(finding: TuningResult) -> str:
    return finding.key.problem_id.split("/", 1)[0] if finding.row is None else finding.row.family


def _definition_axes(finding: TuningResult, request: Request) -> dict[str, int]:
    named = {source: name for name, source in request.names.items()}
    for name, source in request.names.items():
        if not _is_axis_value(finding.shape.get(source)):
            raise InputError(
                f"{TRACES.name}: --map {name}={source}: {finding.kernel} has no integer size "
                f"{source!r}; its shape is {shape_text(finding)}"
            )
    sizes = {n: v for n, v in finding.shape.items() if _is_axis_value(v) and n not in request.drop}
    return {
        named.get(name, name): int(value)  # type: ignore[arg-type]
        for name, value in sizes.items()
    }


def _is_axis_value(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _solution_uuid(finding: TuningResult) -> str:
    workload = None if finding.row is None else finding.row.extra.get("workload")
    return str(workload or uuid.uuid5(uuid.NAMESPACE_URL, f"solkit:{finding.key.problem_id}"))


def _solution_of_result(finding: TuningResult) -> str:
    params = ",".join(f"{name}={value}" for name, value in chosen_of(finding).params.items())
    return f"{finding.kernel}[{params}]" if params else finding.kernel


def _libraries(finding: TuningResult) -> dict[str, str]:
    versions = {name: getattr(finding.key, field) for name, field in LIBRARIES.items()}
    return {name: version for name, version in versions.items() if version is not None}


def _correctness(finding: TuningResult) -> dict[str, Any]:
    error = None if finding.row is None else finding.row.max_error
    return {"max_relative_error": "NaN", "max_absolute_error": "NaN" if error is None else error}


def _performance(finding: TuningResult) -> dict[str, float]:
    """Return times in ms; a reference that was not timed is 0, the schema's default."""
    time_ms = chosen_of(finding).time_ms
    assert time_ms is not None
    reference_ms = (finding.row.reference_ms if finding.row else None) or 0.0
    return {
        "latency_ms": time_ms,
        "reference_latency_ms": reference_ms,
        "speedup_factor": reference_ms / time_ms if time_ms else 0.0,
    }


TRACES = Emitter(
    "flashinfer-bench",
    "FlashInfer-Bench's traces: a file of JSON Lines",
    _trace_files,
    one_kernel=False,
)
