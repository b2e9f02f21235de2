"""Expectations of analysed candidates: one function for `score`, `rank` and `tune`.

The surrogate forecasts; where there is none the kernel model does, and says so. The same analysis
of the same configuration gives the same number, whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from solkit.core import Analysis, Bound, Depth, Device, Forecast, Value, Work
from solkit.datasets.kernels import Kernel
from solkit.errors import UnsupportedError
from solkit.roofline.kernel.evaluate import described
from solkit.surrogate.features import Problem
from solkit.surrogate.model import Surrogate
from solkit.surrogate.table import Entry, Table, table_of_entries
from solkit.surrogate.trees import Forecasts

_DEPTHS = (Depth.CAPTURED, Depth.LOWERED, Depth.COMPILED)


def problem_from(bound: Bound, work: Work, shape: Mapping[str, Value]) -> Problem:
    """Return what the surrogate knows of a problem."""
    return Problem(
        bound.time_ms,
        bound.limiter,
        dict(bound.flops_by_pipe),
        work.dram_read_bytes,
        work.dram_write_bytes,
        shape,
    )


def entry_of_analysis(
    problem: Problem,
    device: Device,
    kernel: Kernel,
    shape: Mapping[str, Value],
    params: Mapping[str, Value],
    analysis: Analysis,
) -> Entry:
    """Return an analysed candidate as the surrogate sees it.

    Args:
        problem: what it computes.
        device: where.
        kernel: its file.
        shape: the sizes that were asked for.
        params: its parameters.
        analysis: of it; its launches must run.
    """
    about = {
        "kernel_id": kernel.kernel_id,
        "problem_id": kernel.problem_id(shape),
        "family": kernel.family,
        "kind": kernel.kind,
        "origin": kernel.origin,
        "implementation": kernel.name,
    }
    launches = [described(kernel.facts, device) for kernel in analysis.kernels]
    return Entry(problem, device, launches, params, about, source=kernel.source.text)


def forecast_or_model(
    table: Table, depth: Depth, surrogate: Surrogate | None
) -> tuple[Forecasts, str]:
    """Return forecasts of a table's rows, and why they are the kernel model's; empty if not.

    Args:
        table: of analysed candidates.
        depth: at which they were analysed.
        surrogate: that forecasts; ``None`` if there is none.
    """
    try:
        if surrogate is None:
            return Forecasts.from_times(table.modelled_ms), _explain_missing_model()
        return surrogate.forecast(table, depth), ""
    except UnsupportedError as error:
        return Forecasts.from_times(table.modelled_ms), str(error)


def _explain_missing_model() -> str:
    """Say why no surrogate forecasts: the shipped one cannot be loaded, or none was given."""
    try:
        Surrogate.load()
    except UnsupportedError as error:
        return f"the trained surrogate cannot be loaded: {error}"
    return "no surrogate was given"


def known_depths(analysis: Analysis) -> set[Depth]:
    """Return the depths to which launches of own kernels are known.

    A launch whose code could not be followed has no modelled time: deeper trees would miss what
    they rest on most, so it counts as captured.
    """
    return {
        Depth.CAPTURED if kernel.facts.requests is None else kernel.facts.depth
        for kernel in analysis.kernels
        if not kernel.launch.library
    }


def common_depth(analysis: Analysis) -> Depth | None:
    """Return the depth to which all launches of own kernels are known; ``None`` without any."""
    return min(known_depths(analysis), key=_DEPTHS.index, default=None)


def forecast_candidate(query: Entry, depth: Depth, surrogate: Surrogate | None) -> Forecast:
    """Forecast one candidate that runs; the kernel model's time, if the surrogate has none."""
    forecasts, why = forecast_or_model(table_of_entries([query]), depth, surrogate)
    time_ms, low_ms, high_ms = (
        float(column[0]) if math.isfinite(column[0]) else None
        for column in (forecasts.time_ms, forecasts.low_ms, forecasts.high_ms)
    )
    return Forecast(time_ms, low_ms, high_ms, 0.0, bool(why or forecasts.abstains[0]))
