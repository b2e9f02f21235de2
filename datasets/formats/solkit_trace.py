"""SolKit's own traces, ``solkit.trace/1`` (docs/traces.md): a line a measurement.

Lines of `solkit compare`'s turns are passed over: either candidate has one of its own.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from solkit.core import Verdict
from solkit.datasets.formats._base import (
    MESSAGE_LIMIT,
    Document,
    Format,
    Imported,
    Labels,
    converted,
    imported_row,
    instant,
)
from solkit.datasets.record import TimedConfiguration, TimedLaunch

__all__ = ["FORMAT"]

_SCHEMA = "solkit.trace/1"
_VERSIONS = ("solkit", "python", "torch", "triton", "driver")


def _recognises(document: Document) -> bool:
    first = document.first
    return isinstance(first, dict) and str(first.get("schema")).startswith("solkit.trace/")


def _read(document: Document, labels: Labels) -> Imported:
    def row(told: Any) -> TimedConfiguration | None:
        if told is None:
            raise ValueError("is cut off or damaged")
        if told.get("schema") != _SCHEMA:
            raise ValueError(f"is {told.get('schema')}, not {_SCHEMA}")
        return None if told.get("comparison") else _row(told, labels)

    rows, faults = converted(document, document.lines(), row)
    return Imported(rows, faults=faults)


def _row(told: dict[str, Any], labels: Labels) -> TimedConfiguration:
    candidate, problem, device = told["candidate"], told["problem"], told["device"]
    return imported_row(
        "trace",
        labels,
        problem["name"],
        problem["shape"],
        candidate["name"],
        implementation=PurePath(candidate["path"]).name,
        source_sha256=candidate["sha256"],
        problem_sha256=problem["sha256"],
        params=candidate["params"],
        device=labels.device or device["key"],
        device_name=device["name"],
        device_uuid=device.get("uuid"),
        created=instant(told["created"]),
        verdict=Verdict(told["verdict"]),
        message="; ".join(told.get("evidence", ()))[:MESSAGE_LIMIT] or None,
        chosen_by="default",
        **_protocol(told.get("protocol") or {}),
        **_measurement(told.get("measurement") or {}),
        **_bound(told.get("bound") or {}),
        **_samples(told.get("samples") or {}),
        **{f"{name}_version": told["software"].get(name) for name in _VERSIONS},
    )


def _protocol(told: dict[str, Any]) -> dict[str, Any]:
    names = ("method", "l2", "flush", "launched", "warmup_calls", "seed")
    return {**{each: told.get(each) for each in names}, "protocol": told.get("name")}


def _measurement(told: dict[str, Any]) -> dict[str, Any]:
    names = ("low_ms", "high_ms", "kernel_sum_ms", "reference_ms")
    error = told.get("max_error")
    return {
        **{each: told.get(each) for each in names},
        "time_ms": told.get("median_ms"),
        "max_error": None if error is None else float(error),
        "clock_mhz": told.get("sm_clock_mhz"),
        "launches": tuple(_launch(each) for each in told.get("launches", ())),
    }


def _launch(told: dict[str, Any]) -> TimedLaunch:
    launch, occupancy = told["launch"], told.get("occupancy") or {}
    return TimedLaunch(
        name=launch["name"],
        grid=tuple(launch["grid"]),
        num_warps=launch["num_warps"],
        num_stages=launch["num_stages"],
        num_ctas=launch.get("num_ctas"),
        count=launch.get("count", 1),
        constants=launch.get("constants", {}),
        signature=launch.get("signature", {}),
        registers=told.get("registers"),
        spills=told.get("spills"),
        shared_bytes=told.get("shared_bytes"),
        occupancy=occupancy.get("fraction"),
        waves=occupancy.get("waves"),
        tensor_cores=told.get("tensor_cores"),
    )


def _bound(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "bound_ms": told.get("roofline_ms"),
        "hard_bound_ms": told.get("hard_ms"),
        "limiter": told.get("limiter"),
        "precision": told.get("precision"),
    }


def _samples(told: dict[str, Any]) -> dict[str, Any]:
    seen = told.get("conditions") or {}
    return {
        "samples_ms": tuple(told.get("candidate_ms", ())),
        "clock_low_mhz": seen.get("sm_clock_low_mhz"),
        "memory_clock_mhz": seen.get("memory_clock_mhz"),
        "power_w": seen.get("power_w"),
        "temperature_c": seen.get("temperature_c"),
        "throttle_reasons": seen.get("reasons") or {},
    }


FORMAT = Format("trace", "SolKit's traces (solkit.trace/1)", _recognises, _read)
