"""Forecasts for launches of one kernel in a live process, and which of them are worth timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from solkit.adapters.launch_recording import TensorArgument
from solkit.adapters.live_captures import may_write_tensor
from solkit.core import Depth, Device, Facts
from solkit.integrations.launches import Launch
from solkit.roofline.calibration import calibrated
from solkit.roofline.kernel.dram_traffic import dram_traffic
from solkit.roofline.kernel.evaluate import described
from solkit.surrogate.features import Array, Problem
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Action, plan_actions
from solkit.surrogate.table import Entry, table_of_entries
from solkit.surrogate.trees import Forecasts

_UNTOLD = ("int32", "issue")
"""Pipes whose operations are addresses and loops, which no reference has."""


def choose_launches(
    launches: Sequence[Launch],
    facts: Mapping[int, Facts | None],
    device: Device,
    surrogate: Surrogate,
    number: int,
) -> list[int]:
    """Return the places of the launches to time, ascending.

    Args:
        launches: of one kernel, the incumbent first.
        facts: by place, of those that were lowered.
        device: where.
        surrogate: the model.
        number: how many.
    """
    forecasts = _forecast_launches(launches, facts, calibrated(device), surrogate)
    fails = np.array(
        [
            launch.captured is None or _cannot_run(facts.get(place), device)
            for place, launch in enumerate(launches)
        ]
    )
    return _choose_places(forecasts, fails, number)


def order_launches(
    launches: Sequence[Launch],
    facts: Mapping[int, Facts | None],
    device: Device,
    surrogate: Surrogate,
) -> list[int]:
    """Return the places of the launches that could be captured, the fastest first."""
    forecasts = _forecast_launches(launches, facts, calibrated(device), surrogate)
    able = [place for place, launch in enumerate(launches) if launch.captured is not None]
    return sorted(able, key=lambda place: _sortable_time(float(forecasts.time_ms[place])))


def _choose_places(forecasts: Forecasts, fails: Array, number: int) -> list[int]:
    order, acts = plan_actions(forecasts.time_ms, forecasts.low_ms, fails, [0], number)
    kept = {place for place, (action, _) in enumerate(acts) if action is not Action.SKIP}
    kept.add(0)
    for place in map(int, order):  # forecasts of failure may be wrong: never fewer than asked
        if len(kept) >= number:
            break
        kept.add(place)
    return sorted(kept)


def _forecast_launches(
    launches: Sequence[Launch],
    facts: Mapping[int, Facts | None],
    device: Device,
    surrogate: Surrogate,
) -> Forecasts:
    """Forecast every launch, at the depth that is known; NaN where it cannot run.

    Forecasts of captured launches are scaled to those of lowered ones, as far as both are known:
    else the kind that errs to the low side would win.
    """
    able = [place for place, launch in enumerate(launches) if launch.captured is not None]
    problem = _launch_problem(launches[able[0]], list(facts.values()), device)
    deep = {
        place: lowered
        for place, lowered in facts.items()
        if lowered and not _cannot_run(lowered, device)
    }
    if deep and all(facts.get(place) for place in able):  # what is not deep cannot run
        return _forecast_known(launches, deep, problem, device, surrogate)
    shallow = _forecast_known(launches, dict.fromkeys(able), problem, device, surrogate)
    if not deep:
        return shallow
    lowered = _forecast_known(launches, deep, problem, device, surrogate)
    places = np.array(sorted(deep))
    ratios = lowered.time_ms[places] / shallow.time_ms[places]
    scale = float(np.exp(np.nanmedian(np.log(ratios)))) if not np.isnan(ratios).all() else 1.0
    scaled = replace(
        shallow,
        time_ms=shallow.time_ms * scale,
        low_ms=shallow.low_ms * scale,
        high_ms=shallow.high_ms * scale,
    )
    return scaled.with_(places, lowered[places])


def _forecast_known(
    launches: Sequence[Launch],
    facts: Mapping[int, Facts | None],
    problem: Problem,
    device: Device,
    surrogate: Surrogate,
) -> Forecasts:
    """Forecast some launches, as captured where there are no facts; NaN for the others."""
    places = sorted(facts)
    entries = []
    for place in places:
        captured = launches[place].captured
        assert captured is not None
        launch_facts = facts[place] or Facts(captured.launch, Depth.CAPTURED)
        kernel = described(launch_facts, device)
        entries.append(Entry(problem, device, [kernel], launches[place].params, {}))
    depth = Depth.LOWERED if any(facts.values()) else Depth.CAPTURED
    forecasts = Forecasts.from_times(np.full(len(launches), np.nan))
    return forecasts.with_(np.array(places), surrogate.forecast(table_of_entries(entries), depth))


def _cannot_run(facts: Facts | None, device: Device) -> bool:
    return facts is not None and described(facts, device).error is not None


def _sortable_time(time_ms: float) -> float:
    return np.inf if np.isnan(time_ms) else time_ms


# --------------------------------------------------------------------------------------- problem


def _launch_problem(launch: Launch, facts: Sequence[Facts | None], device: Device) -> Problem:
    """Return the kernel's own work: the least that any lowered launch asks for."""
    assert launch.captured is not None
    tensors = {
        name: argument
        for name, argument in launch.captured.arguments.items()
        if isinstance(argument, TensorArgument)
    }
    requests = [fact.requests for fact in facts if fact is not None and fact.requests is not None]
    operations: dict[str, float] = {}
    if requests:
        pipes = {pipe for request in requests for pipe in request.operations} - set(_UNTOLD)
        for pipe in sorted(pipes):
            operations[pipe] = float(min(request.operations.get(pipe, 0) for request in requests))
        traffic = [dram_traffic(request.reuse, 2.0**62) for request in requests]
        read = min(amounts.read for amounts in traffic)
        wrote = min(amounts.written for amounts in traffic)
    else:
        sizes = {tensor.storage: _distinct_bytes(tensor) for tensor in tensors.values()}
        outputs = {
            t.storage for name, t in tensors.items() if may_write_tensor(launch.captured, name)
        }
        wrote = float(sum(size for storage, size in sizes.items() if storage in outputs))
        read = float(sum(size for storage, size in sizes.items() if storage not in outputs))
    times = {pipe: _pipe_time_ms(device, pipe, amount) for pipe, amount in operations.items()}
    times["dram"] = _pipe_time_ms(device, "dram", read + wrote)
    limiter = max(times, key=lambda pipe: times[pipe])
    sizes_of = sorted({size for tensor in tensors.values() for size in tensor.shape if size > 1})
    shape = {f"size_{place}": size for place, size in enumerate(reversed(sizes_of))}
    return Problem(max(times[limiter], 1e-6), limiter, operations, read, wrote, shape)


def _distinct_bytes(tensor: TensorArgument) -> int:
    """Return distinct bytes of a tensor's elements."""
    distinct = [n for n, step in zip(tensor.shape, tensor.strides) if step]
    return int(np.prod(distinct, dtype=object)) * tensor.element_bytes


def _pipe_time_ms(device: Device, pipe: str, amount: float) -> float:
    ceiling = device.ceilings.get(pipe)
    return 0.0 if ceiling is None else 1e3 * amount / ceiling.value
