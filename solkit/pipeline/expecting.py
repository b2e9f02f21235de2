"""What the surrogate expects of a scored kernel, beside what the kernel model says.

Reading the model takes a second, so a forecast is kept on disk: all that it rests on makes its
name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from solkit import userdata
from solkit.core import Depth, Device, Forecast, KernelFile, Result
from solkit.datasets.kernels import Kernel, kernel_of
from solkit.errors import SolkitError
from solkit.pipeline.shipping import model_file, shipped
from solkit.surrogate.expected import depth_of, entry, forecast_of, problem_from
from solkit.surrogate.table import Entry

__all__ = ["with_forecasts"]


def with_forecasts(file: KernelFile, results: Sequence[Result], device: Device) -> list[Result]:
    """Results with what the installed surrogate expects; without a model they stay as they are."""
    if file.candidate is None:  # a reference alone
        return list(results)
    try:
        identity = model_file()
        kernel = kernel_of(file)
    except (SolkitError, OSError):  # a score stands without a forecast
        return list(results)
    return [replace(each, forecast=_forecast(kernel, each, device, identity)) for each in results]


def _forecast(kernel: Kernel, result: Result, device: Device, identity: str) -> Forecast | None:
    """What is expected of a result's candidate; ``None`` if its launches are not all known."""
    depth = depth_of(result.analysis)
    if depth is None or result.gap is None or not result.analysis.is_whole:
        return None
    problem = problem_from(result.bound, result.work, result.shape)
    asked = entry(problem, device, kernel, result.shape, result.params, result.analysis)
    path = _path(asked, depth, identity)
    found = _read(path)
    if found is None:
        model = shipped()
        if model is None:
            return None
        found = forecast_of(asked, depth, model.without_language())
        _write(path, found)
    return found


def _path(asked: Entry, depth: Depth, identity: str) -> Path:
    rests_on = (identity, depth.value, asked)
    name = hashlib.sha256(repr(rests_on).encode()).hexdigest()
    return userdata.cache_folder("forecasts") / f"{name[:32]}.json"


def _read(path: Path) -> Forecast | None:
    try:
        return Forecast(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, found: Forecast) -> None:
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(found)), "utf-8")
        draft.replace(path)
