"""``best_config.json``: the best parameters of one kernel file, a configuration for each shape.

::

    {"schema": "solkit.best_config/1", "kernel": "softmax.py", "kernel_id": "...",
     "configs": [{"shape": {"M": 4096}, "params": {"BLOCK": 1024}, "device": "h200", ...}]}

`solkit score --params-file best_config.json` uses it, and `read_best_configs` finds the entry for
a shape.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from solkit.core import TimedParams, Value, canonical
from solkit.core.codec import json_value
from solkit.core.quantities import settings_text
from solkit.errors import InputError
from solkit.tuner.emitters._base import Emitter, File, Files, Request, chosen_of, gpu_driver_name
from solkit.tuner.tuning_results import TuningResult

SCHEMA = "solkit.best_config/1"


def _best_config_files(findings: Sequence[TuningResult], request: Request) -> Files:
    if request.names or request.constants or request.drop:
        raise InputError(
            f"{BEST_CONFIG.name} keeps the kernel's own names: it takes no --map, --set or --drop"
        )
    document = {
        "schema": SCHEMA,
        "kernel": findings[0].kernel,
        "kernel_id": findings[0].key.kernel_id,
        "configs": [_config_entry(finding) for finding in findings],
    }
    return Files((File("", json.dumps(document, indent=2, allow_nan=False) + "\n"),))


def _config_entry(finding: TuningResult) -> dict[str, Any]:
    """Return one configuration; times in ms."""
    key, row = finding.key, finding.row
    return {
        "shape": json_value(dict(finding.shape)),
        "params": json_value(dict(chosen_of(finding).params)),
        "device": key.device,
        "device_name": gpu_driver_name(finding),
        **_format_time(chosen_of(finding)),
        "verdict": finding.verdict.value if finding.confirmed else "unconfirmed",
        "ratio": None if finding.ratio is None else json_value(finding.ratio),
        "in_use": None if finding.incumbent is None else _format_params_in_use(finding.incumbent),
        "measured": finding.measured,
        "gpu_s": None if finding.gpu_s is None else round(finding.gpu_s, 3),
        "date": finding.ended.isoformat(timespec="seconds"),
        "run_id": finding.run_id,
        "protocol": key.protocol,
        "clock_mhz": row.clock_mhz if row else None,
        "versions": {
            "triton": key.triton_version,
            "torch": key.torch_version,
            "cuda": key.cuda_version,
            "solkit": key.solkit_version,
            "driver": row.driver_version if row else None,
        },
    }


def _format_time(timed: TimedParams) -> dict[str, float | None]:
    return {"time_ms": timed.time_ms, "low_ms": timed.low_ms, "high_ms": timed.high_ms}


def _format_params_in_use(timed: TimedParams) -> dict[str, Any]:
    return {"params": json_value(dict(timed.params)), **_format_time(timed)}


def read_best_configs(
    path: str | os.PathLike[str],
    shapes: Sequence[Mapping[str, Value]] | None = None,
    device: str | None = None,
) -> dict[str, Value]:
    """Return the parameters that a ``best_config.json`` has for some shapes.

    Args:
        path: the file.
        shapes: sizes, which may be given in part; by default all shapes of the file.
        device: the GPU's key; entries of other GPUs count only if there is none for this one.

    Raises:
        InputError: the file cannot be read, lacks a shape, or has different parameters for them.
    """
    entries = _read_entries(Path(path))
    mine = [entry for entry in entries if entry["device"] == device] or entries
    queries = [{}] if shapes is None else shapes
    matches = [entry["params"] for shape in queries for entry in _entries_at(path, mine, shape)]
    chosen = {canonical(params): params for params in matches}
    if len(chosen) != 1:
        listed = "; ".join(
            f"{_format_shape(entry['shape'])}: {canonical(entry['params'])}" for entry in mine
        )
        raise InputError(
            f"{path} has {len(chosen)} choices of parameters: give --shape, one of: {listed}"
        )
    return dict(next(iter(chosen.values())))


def _entries_at(
    path: object, entries: Sequence[Mapping[str, Any]], shape: Mapping[str, Value]
) -> list[Mapping[str, Any]]:
    """Return entries whose shape has these sizes."""
    matches = [entry for entry in entries if shape.items() <= entry["shape"].items()]
    if not matches:
        valid = "; ".join(_format_shape(entry["shape"]) for entry in entries)
        raise InputError(f"{path} has no parameters for {_format_shape(shape)}; it has: {valid}")
    return matches


def _format_shape(shape: Mapping[str, Value]) -> str:
    return settings_text(shape, "its default")


def _read_entries(path: Path) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} is not a best_config.json: schema is {schema!r}, not {SCHEMA!r}")
    entries = document.get("configs")
    fields = ("shape", "params", "device")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} holds no configs")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not all(name in entry for name in fields):
            raise InputError(f"{path}: configs[{number}] lacks one of: {', '.join(fields)}")
        if not isinstance(entry["shape"], dict) or not isinstance(entry["params"], dict):
            raise InputError(f"{path}: configs[{number}]: shape and params must be objects")
    return entries


BEST_CONFIG = Emitter(
    "best-config", "best_config.json: for `solkit score --params-file`", _best_config_files
)
