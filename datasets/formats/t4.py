"""T4: the auto-tuning community's format of results, version 1.0.0, read and written.

https://github.com/odgaard/TuningSchema; Kernel Tuner and others write it. Times are milliseconds.
It names neither kernel nor GPU: the file's name and the user do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from solkit.core import Outcome, Verdict
from solkit.datasets.formats._base import (
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
    instant,
)

VERSION = "1.0.0"

_VERDICTS = {
    "correct": Verdict.CORRECT,
    "compile": Verdict.DOES_NOT_COMPILE,
    "runtime": Verdict.CRASHED,
    "timeout": Verdict.TIMED_OUT,
    "correctness": Verdict.WRONG,
    "constraints": Verdict.NOT_MEASURED,  # outside the user's restrictions: never run
}
_INVALIDITY = {
    Verdict.CORRECT: "correct",
    Verdict.BEATS_ALGORITHM: "correct",
    Verdict.DOES_NOT_COMPILE: "compile",
    Verdict.CRASHED: "runtime",
    Verdict.OUT_OF_MEMORY: "runtime",
    Verdict.TIMED_OUT: "timeout",
    Verdict.WRONG: "correctness",
    Verdict.CHEATING: "correctness",
    Verdict.IMPOSSIBLE: "correctness",  # no correct kernel can have that time
    Verdict.DEGENERATE_PROBLEM: "correctness",  # its problem cannot show whether it is correct
    Verdict.UNSTABLE: "runtime",  # correct, but the run was disturbed: the time must not count
}
_RESTRICTING = ("t4", "kernel_tuner")
"""Formats in which `Verdict.NOT_MEASURED` means excluded by the user's restrictions."""

_OBJECTIVE = "time"


def _recognises(document: Document) -> bool:
    if not document.has("results"):
        return False
    results = document.json["results"]
    return isinstance(results, list) and all("configuration" in result for result in results[:1])


def _read_document(document: Document, labels: Labels) -> Imported:
    device = document.device(labels)
    about = {k: v for k, v in document.json.items() if k not in ("results", "schema_version")}

    def convert_record(result: dict[str, Any]) -> Outcome:
        return _outcome_of_result(result, device, document, labels, about)

    results = ((f"result {i}", result) for i, result in enumerate(document.json["results"]))
    return converted(document.path, results, convert_record)


def _outcome_of_result(
    result: dict[str, Any],
    device: str,
    document: Document,
    labels: Labels,
    about: dict[str, Any],
) -> Outcome:
    times = dict(result["times"])
    samples, compilation = times.pop("runtimes", ()), times.pop("compilation", None)
    kernel = document.name.split(".")[0]
    values = {
        measurement["name"]: measurement["value"] for measurement in result.get("measurements", ())
    }
    time = values.get(_OBJECTIVE)
    handled = ("timestamp", "configuration", "times", "invalidity")
    rest = {name: value for name, value in result.items() if name not in handled}
    return imported_row(
        "t4",
        labels,
        kernel,
        {},
        kernel,
        device=device,
        params=result["configuration"],
        verdict=_VERDICTS[result["invalidity"]],
        message=time if isinstance(time, str) else None,
        time_ms=time if isinstance(time, (int, float)) else None,
        samples_ms=tuple(samples),
        compile_s=None if compilation is None else compilation / 1000,
        created=instant(result["timestamp"]) if "timestamp" in result else document.changed,
        extra={"times": times, "result": rest, "file": about},
    )


def dumps(rows: Iterable[Outcome]) -> str:
    """Write rows as a T4 file; rows that were imported from T4 are written unchanged.

    T4 has no place for other rows' kernel, problem, GPU and what is known of them. Rows without a
    result, e.g. after a failure of the machine, are left out: T4 has no word for that.
    """
    about: dict[str, Any] = {}
    results = []
    for row in rows:
        about.update(row.extra.get("file", {}) if row.origin == "t4" else {})
        if (invalidity := _invalidity(row)) is not None:
            results.append(_result_of_row(row, invalidity))
    return json.dumps({**about, "schema_version": VERSION, "results": results}, indent=1)


def _invalidity(row: Outcome) -> str | None:
    """Return T4's word for the result of a configuration; ``None`` if there is no result."""
    if row.verdict is not Verdict.NOT_MEASURED:
        return _INVALIDITY[row.verdict]
    if row.origin in _RESTRICTING:
        return "constraints"
    return None if row.time_ms is None else "correct"  # timed by a tool that did not check it


def _result_of_row(row: Outcome, invalidity: str) -> dict[str, Any]:
    times: dict[str, Any] = {}
    if row.compile_s is not None:
        times["compilation"] = row.compile_s * 1000
    if row.origin == "t4":
        times.update(row.extra.get("times", {}))
    if row.samples_ms:
        times["runtimes"] = list(row.samples_ms)
    result = {
        "timestamp": str(row.created),
        "configuration": dict(row.params),
        "times": times,
        "invalidity": invalidity,
    }
    if row.origin == "t4":
        return {**result, **row.extra.get("result", {})}
    # as Kernel Tuner writes it, a failure has a word in place of a time: the least number is best
    counts = invalidity == "correct" and row.time_ms is not None
    value = row.time_ms if counts else row.verdict.value
    return {
        **result,
        "correctness": int(invalidity == "correct"),
        "measurements": [{"name": _OBJECTIVE, "value": value, "unit": "ms"}],
        "objectives": [_OBJECTIVE],
    }


FORMAT = Format("t4", "T4 results of auto-tuners; also written", _recognises, _read_document)
