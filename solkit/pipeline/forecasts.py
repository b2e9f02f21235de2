"""Forecasts of the surrogate for a scored kernel, next to what the kernel model says.

Reading the model takes a second, so a forecast is kept on disk: all that it rests on makes its
name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from solkit import userdata
from solkit.core import Depth, Device, Forecast, KernelFile, Result
from solkit.core.codec import from_json, to_json
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import SolkitError
from solkit.pipeline.shipped_surrogate import model_file

if TYPE_CHECKING:
    from solkit.surrogate.table import Entry


def with_forecasts(file: KernelFile, results: Sequence[Result], device: Device) -> list[Result]:
    """Add the installed surrogate's forecasts to results; where none can be made, a note says why.

    A score stands without a forecast.
    """
    return [_with_forecast(file, result, device) for result in results]


def _with_forecast(file: KernelFile, result: Result, device: Device) -> Result:
    if file.candidate is None or result.gap is None or not result.analysis.is_whole:
        return result
    from solkit.surrogate.candidate_forecasts import common_depth  # only if there is a forecast

    depth = common_depth(result.analysis)
    if depth is None:
        return result
    try:
        return replace(result, forecast=_forecast_result(file, result, device, depth))
    except (SolkitError, OSError) as error:
        notes = (*result.analysis.notes, f"The surrogate gives no forecast: {error}")
        return replace(result, analysis=replace(result.analysis, notes=notes))


def _forecast_result(file: KernelFile, result: Result, device: Device, depth: Depth) -> Forecast:
    """Forecast a result's candidate.

    Raises:
        SolkitError: no model can be loaded.
        OSError: likewise.
    """
    from solkit.surrogate.candidate_forecasts import (
        entry_of_analysis,
        forecast_candidate,
        problem_from,
    )
    from solkit.surrogate.model import Surrogate

    problem, kernel = problem_from(result.bound, result.work, result.shape), kernel_of_file(file)
    query = entry_of_analysis(problem, device, kernel, result.shape, result.params, result.analysis)
    path = _cache_path(query, depth, model_file())
    forecast = _read_cached(path)
    if forecast is None:
        forecast = forecast_candidate(query, depth, Surrogate.load().without_language())
        _write_cached(path, forecast)
    return forecast


def _cache_path(query: Entry, depth: Depth, identity: str) -> Path:
    rests_on = (identity, depth.value, query)
    name = hashlib.sha256(repr(rests_on).encode()).hexdigest()
    return userdata.cache_folder("forecasts") / f"{name[:32]}.json"


def _read_cached(path: Path) -> Forecast | None:
    try:
        return from_json(Forecast, json.loads(path.read_text("utf-8")))
    except (OSError, ValueError):
        return None


def _write_cached(path: Path, forecast: Forecast) -> None:
    with contextlib.suppress(OSError):
        userdata.write_atomically(path, json.dumps(to_json(forecast)).encode())
