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
    gpu_name,
    shape_text,
)
from solkit.tuner.findings import Finding

__all__ = ["TRACES"]


def _files(found: Sequence[Finding], request: Request) -> Files:
    untimed = [each for each in found if chosen_of(each).time_ms is None]
    if untimed:
        raise InputError(
            f"{TRACES.name}: {untimed[0].kernel} at {shape_text(untimed[0])} has no time, and a "
            "trace tells one"
        )
    lines = [json.dumps(_trace(each, request), separators=(",", ":")) for each in found]
    return Files((File("", "\n".join(lines) + "\n"),))


def _trace(found: Finding, request: Request) -> dict[str, Any]:
    return {
        "definition": str(request.constants.get("definition", _family(found))),
        "workload": {"axes": _axes(found, request), "inputs": {}, "uuid": _uuid(found)},
        "solution": str(request.constants.get("solution", _solution(found))),
        "evaluation": {
            "status": "PASSED",
            "environment": {"hardware": gpu_name(found), "libs": _libraries(found)},
            "timestamp": found.ended.isoformat(),
            "log": "",
            "correctness": _correctness(found),
            "performance": _performance(found),
        },
    }


def _family(found: Finding) -> str:
    return found.key.problem_id.split("/", 1)[0] if found.row is None else found.row.family


def _axes(found: Finding, request: Request) -> dict[str, int]:
    named = {source: name for name, source in request.names.items()}
    for name, source in request.names.items():
        if not _is_axis(found.shape.get(source)):
            raise InputError(
                f"{TRACES.name}: --map {name}={source}: {found.kernel} has no integer size "
                f"{source!r}; its shape is {shape_text(found)}"
            )
    sizes = {n: v for n, v in found.shape.items() if _is_axis(v) and n not in request.drop}
    return {named.get(name, name): int(value) for name, value in sizes.items() if _is_axis(value)}  # type: ignore[arg-type]


def _is_axis(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _uuid(found: Finding) -> str:
    told = None if found.row is None else found.row.extra.get("workload")
    return str(told or uuid.uuid5(uuid.NAMESPACE_URL, f"solkit:{found.key.problem_id}"))


def _solution(found: Finding) -> str:
    params = ",".join(f"{name}={value}" for name, value in chosen_of(found).params.items())
    return f"{found.kernel}[{params}]" if params else found.kernel


def _libraries(found: Finding) -> dict[str, str]:
    told = {name: getattr(found.key, field) for name, field in LIBRARIES.items()}
    return {name: version for name, version in told.items() if version is not None}


def _correctness(found: Finding) -> dict[str, Any]:
    error = None if found.row is None else found.row.max_error
    return {
        "max_relative_error": "NaN",
        "max_absolute_error": "NaN" if error is None else error,
    }


def _performance(found: Finding) -> dict[str, float]:
    """Times in ms; a reference that was not timed is 0, the schema's default."""
    time_ms = chosen_of(found).time_ms
    assert time_ms is not None
    reference_ms = (found.row.reference_ms if found.row else None) or 0.0
    return {
        "latency_ms": time_ms,
        "reference_latency_ms": reference_ms,
        "speedup_factor": reference_ms / time_ms if time_ms else 0.0,
    }


TRACES = Emitter(
    "flashinfer-bench", "FlashInfer-Bench's traces: a file of JSON Lines", _files, one_kernel=False
)
