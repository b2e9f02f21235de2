"""Lines of ``solkit.trace/1``, which SolKit wrote before its logs: one measurement each.

A row is named by a digest of what version 1 of the row kept of a line, so that a file that was
imported then adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from solkit.core import ComparedBase, Difference, LiveLaunch, Outcome, Ratio, Verdict
from solkit.datasets.formats._base import MESSAGE_LIMIT, Labels, imported_row, instant
from solkit.datasets.record import from_json, kernel_id

__all__ = ["naming", "row"]

_VERSIONS = ("solkit", "python", "torch", "triton", "driver")


def row(told: Mapping[str, Any], labels: Labels) -> Outcome:
    """The row of a line, not numbered yet.

    Args:
        told: an object whose schema is ``solkit.trace/1``.
        labels: what the user says of it.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it holds none.
    """
    candidate, problem, device = told["candidate"], told["problem"], told["device"]
    evidence = told.get("evidence", ())
    return imported_row(
        "trace",
        labels,
        problem["name"],
        problem["shape"],
        candidate["name"],
        implementation=PurePath(candidate["path"]).name,
        source_sha256=candidate["sha256"],
        problem_sha256=problem["sha256"],
        path=candidate["path"],
        problem_path=problem["path"],
        problem_format=problem.get("format"),
        params=candidate["params"],
        created=instant(told["created"]),
        verdict=Verdict(told["verdict"]),
        message="; ".join(evidence)[:MESSAGE_LIMIT] or None,
        evidence=tuple(evidence),
        chosen_by="default",
        comparison=_comparison(told),
        **_tolerance(problem.get("tolerance") or {}),
        **_device(device, labels),
        **_protocol(told.get("protocol") or {}),
        **_measurement(told.get("measurement") or {}),
        **_bound(told.get("bound") or {}),
        **_samples(told.get("samples") or {}),
        **{f"{name}_version": told["software"].get(name) for name in _VERSIONS},
        platform=told["software"].get("platform"),
    )


def _tolerance(told: Mapping[str, Any]) -> dict[str, Any]:
    return {"rtol": told.get("rtol"), "atol": told.get("atol")}


def _device(told: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    return {
        "device": labels.device or told["key"],
        "device_name": told["name"],
        "device_uuid": told.get("uuid"),
        "compute_capability": tuple(told.get("compute_capability", ())),
        "sm_count": told.get("sm_count"),
        "max_clock_mhz": told.get("max_sm_clock_mhz"),
        "device_notes": tuple(told.get("notes", ())),
    }


def _protocol(told: Mapping[str, Any]) -> dict[str, Any]:
    names = ("method", "l2", "flush", "launched", "warmup_calls", "seed", "time_limit_s")
    return {**{each: told.get(each) for each in names}, "protocol": told.get("name")}


def _measurement(told: Mapping[str, Any]) -> dict[str, Any]:
    names = ("low_ms", "high_ms", "kernel_sum_ms", "reference_ms")
    error = told.get("max_error")
    return {
        **{each: told.get(each) for each in names},
        "time_ms": told.get("median_ms"),
        "max_error": None if error is None else float(error),
        "clock_mhz": told.get("sm_clock_mhz"),
        "live_launches": tuple(_launch(each) for each in told.get("launches", ())),
    }


def _launch(told: Mapping[str, Any]) -> LiveLaunch:
    return from_json(LiveLaunch, _known({**told, **told["launch"]}))


def _bound(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bound_ms": told.get("roofline_ms"),
        "hard_bound_ms": told.get("hard_ms"),
        "calibrated_bound_ms": told.get("calibrated_ms"),
        "observed_clock_bound_ms": told.get("observed_clock_ms"),
        "limiter": told.get("limiter"),
        "precision": told.get("precision"),
    }


def _samples(told: Mapping[str, Any]) -> dict[str, Any]:
    seen = told.get("conditions") or {}
    return {
        "samples_ms": tuple(told.get("candidate_ms", ())),
        "reference_samples_ms": tuple(told.get("reference_ms", ())),
        "condition_samples": seen.get("samples"),
        "clock_low_mhz": seen.get("sm_clock_low_mhz"),
        "memory_clock_mhz": seen.get("memory_clock_mhz"),
        "power_w": seen.get("power_w"),
        "power_high_w": seen.get("power_high_w"),
        "temperature_c": seen.get("temperature_c"),
        "throttle_reasons": seen.get("reasons") or {},
        "neighbours": tuple(told.get("neighbours", ())),
    }


def _comparison(told: Mapping[str, Any]) -> ComparedBase | None:
    compared = told.get("comparison")
    if not compared:
        return None
    base, ratio = compared["base"], compared.get("ratio")
    return ComparedBase(
        kernel_id(base["sha256"], told["problem"]["sha256"], base["name"]),
        base["params"],
        Difference(compared["difference"]),
        base["name"],
        base["sha256"],
        base["path"],
        from_json(Ratio, ratio) if ratio else None,
        tuple(compared.get("base_ms", ())),
    )


def naming(told: Mapping[str, Any]) -> dict[str, Any]:
    """What names a line's row beside its columns: the launches, which version 1 kept otherwise."""
    if told.get("comparison"):
        return {"comparison": told["comparison"]}
    launches = (told.get("measurement") or {}).get("launches", ())
    return {"launches": [_launch_of_version_1(each) for each in launches]} if launches else {}


def _launch_of_version_1(told: Mapping[str, Any]) -> dict[str, Any]:
    launch, occupancy = told["launch"], told.get("occupancy") or {}
    figures = {name: told.get(name) for name in _FIGURES}
    resident = {"occupancy": occupancy.get("fraction"), "waves": occupancy.get("waves")}
    kept = _known({**launch, **figures, **resident})
    defaults = {"count": 1, "constants": {}, "signature": {}}
    return {name: value for name, value in kept.items() if value != defaults.get(name)}


_FIGURES = ("registers", "spills", "shared_bytes", "tensor_cores")


def _known(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}
