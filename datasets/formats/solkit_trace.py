"""Lines of ``solkit.trace/1``, which SolKit wrote before its logs: one measurement each.

A row is named by a digest of what version 1 of the row kept of a line, so that importing an old
file again adds nothing.
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
_FIELDS = {
    "tolerance": "rtol atol",
    "device": "device_name=name device_uuid=uuid compute_capability sm_count "
    "max_clock_mhz=max_sm_clock_mhz device_notes=notes",
    "protocol": "protocol=name method l2 flush launched warmup_calls seed time_limit_s",
    "measurement": "time_ms=median_ms low_ms high_ms kernel_sum_ms reference_ms max_error "
    "clock_mhz=sm_clock_mhz",
    "bound": "bound_ms=roofline_ms hard_bound_ms=hard_ms calibrated_bound_ms=calibrated_ms "
    "observed_clock_bound_ms=observed_clock_ms limiter precision",
    "samples": "samples_ms=candidate_ms reference_samples_ms=reference_ms neighbours",
    "conditions": "condition_samples=samples clock_low_mhz=sm_clock_low_mhz memory_clock_mhz "
    "power_w power_high_w temperature_c throttle_reasons=reasons",
}
"""By record of a line: fields of `Outcome`, each with its name there if that differs."""


def row(told: Mapping[str, Any], labels: Labels) -> Outcome:
    """The row of a line, not numbered yet.

    Args:
        told: an object whose schema is ``solkit.trace/1``.
        labels: what the user says about it.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is invalid.
    """
    candidate, problem, device = told["candidate"], told["problem"], told["device"]
    evidence, samples = told.get("evidence", ()), told.get("samples") or {}
    measurement = told.get("measurement") or {}
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
        device=labels.device or device["key"],
        live_launches=tuple(_launch(each) for each in measurement.get("launches", ())),
        **_fields("tolerance", problem),
        **_fields("device", told),
        **_fields("protocol", told),
        **_fields("measurement", told),
        **_fields("bound", told),
        **_fields("samples", told),
        **_fields("conditions", samples),
        **{f"{name}_version": told["software"].get(name) for name in _VERSIONS},
        platform=told["software"].get("platform"),
    )


def _fields(name: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Outcome` that a record within another has."""
    record = told.get(name) or {}
    pairs = (each.partition("=") for each in _FIELDS[name].split())
    return _known({field: record.get(key or field) for field, _, key in pairs})


def _launch(told: Mapping[str, Any]) -> LiveLaunch:
    return from_json(LiveLaunch, _known({**told, **told["launch"]}))


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
    """What names a line's row besides its columns: the launches as version 1 kept them."""
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
