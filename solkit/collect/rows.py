"""Launches as rows keep them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from solkit.analysis.occupancy import occupancy
from solkit.core import Access, Demand, Device, KernelAnalysis
from solkit.datasets.record import TimedDemand, TimedLaunch

__all__ = ["timed_launch", "with_demands"]

_AS_THEY_ARE = {each.name for each in fields(TimedDemand)} & {each.name for each in fields(Demand)}


def timed_launch(kernel: KernelAnalysis, device: Device) -> TimedLaunch:
    """A launch with the occupancy that its registers and shared memory leave, and its demand."""
    launch = kernel.launch
    told = TimedLaunch(
        launch.name,
        launch.grid,
        launch.num_warps,
        launch.num_stages,
        launch.num_ctas,
        launch.count,
        launch.constants,
        launch.signature,
        kernel.registers,
        kernel.spills,
        kernel.shared_bytes,
        tensor_cores=kernel.tensor_cores,
        demand=_timed_demand(kernel),
    )
    if kernel.registers is None or kernel.shared_bytes is None:
        return told
    try:
        resident = occupancy(
            device,
            kernel.registers,
            kernel.shared_bytes,
            launch.num_warps,
            math.prod(launch.grid),
            launch.num_ctas,
        )
    except ValueError:  # no block fits, which launching it tells
        return told
    return replace(told, occupancy=resident.fraction, waves=resident.waves)


def with_demands(
    live: Iterable[TimedLaunch], compiled: Sequence[TimedLaunch]
) -> tuple[TimedLaunch, ...]:
    """Launches as they were made, each with the demand of the one that was compiled like it."""
    known = {_identity(each): each.demand for each in compiled}
    return tuple(replace(each, demand=known.get(_identity(each))) for each in live)


def _identity(launch: TimedLaunch) -> tuple[object, ...]:
    constants = tuple(sorted(launch.constants.items()))
    return launch.name, tuple(launch.grid), launch.num_warps, launch.num_stages, constants


def _timed_demand(kernel: KernelAnalysis) -> TimedDemand | None:
    demand, model = kernel.demand, kernel.model
    if demand is None:
        return None
    told = TimedDemand(**{name: getattr(demand, name) for name in _AS_THEY_ARE - {"guesses"}})
    by_kind: dict[str, Any] = {
        f"{kind}_{name}": _total(demand.accesses, kind, field)
        for kind in ("load", "store", "atomic")
        for name, field in _SUMMED.items()
    }
    copies = [each for each in demand.accesses if each.path != "global"]
    return replace(
        told,
        **by_kind,
        copied_sectors=_total(copies, "load", "sectors"),
        shared_wavefronts=sum(each.wavefronts for each in demand.shared),
        shared_least_wavefronts=sum(each.least_wavefronts for each in demand.shared),
        guesses=len(demand.guesses),
        model_ms=model.time_ms if model else None,
        terms={term.name: term.time_ms for term in model.terms} if model else {},
    )


_SUMMED = {"requests": "requests", "sectors": "sectors", "bytes": "requested_bytes"}


def _total(accesses: Iterable[Access], kind: str, field: str) -> int:
    return sum(getattr(each, field) for each in accesses if each.kind == kind)
