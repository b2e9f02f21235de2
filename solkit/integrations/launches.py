"""Which launches of one kernel are worth timing, in a live process without a kernel file.

There is no reference at hand, so the problem is the kernel's own work: the least traffic and the
fewest operations that any of its lowered launches asks for.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from solkit.adapters.fake_triton import CapturedLaunch, TensorArgument
from solkit.adapters.live_autotuner import may_write_tensor
from solkit.adapters.triton_compiler import fill_cache, is_in_cache, lower_for, prepare
from solkit.analysis.facts import facts_of
from solkit.core import Depth, Device, Facts, Value
from solkit.errors import SolkitError
from solkit.processes.parallel_calls import call_in_forks
from solkit.roofline.kernel.dram_traffic import dram_traffic
from solkit.roofline.kernel.evaluate import described
from solkit.surrogate.features import Array, Problem
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Action, plan_actions
from solkit.surrogate.table import Entry, table_of_entries
from solkit.surrogate.trees import Forecasts

__all__ = ["Launch", "compile_ahead", "promising_launches"]

LOWERED_PER_KEPT = 6
"""Launches that are lowered for each one that is kept: lowering takes 0.1 s, timing 0.5 s with the
compiler. The number must not depend on the machine's cores, or the choice would."""
_LIMIT_S = 30.0
"""Limit of one process that lowers a share of the launches."""
_MOST_JOBS = 16
_PROBES = 3
"""Launches that are lowered to learn what the kernel's work is, until one can be."""
_UNTOLD = ("int32", "issue")
"""Pipes whose operations are addresses and loops, which no reference has."""


@dataclass(frozen=True)
class Launch:
    """A launch that may be timed.

    Attributes:
        captured: with the compiler's input; ``None`` if it cannot even be captured.
        params: its tuning parameters.
    """

    captured: CapturedLaunch | None
    params: Mapping[str, Value]


def promising_launches(
    launches: Sequence[Launch], device: Device, surrogate: Callable[[], Surrogate], number: int
) -> list[int]:
    """Return the places of the launches to time, ascending; the first launch is always among them.

    A share explores: these may be faster than they are thought to be. The choice depends on its
    arguments alone.

    Args:
        launches: of one kernel on the same arguments, the incumbent first.
        device: where.
        surrogate: returns the model; called while launches are lowered, as loading takes as long.
        number: how many, at the least one.

    Raises:
        SolkitError: no launch can be captured.
    """
    able = [place for place, launch in enumerate(launches) if launch.captured is not None]
    if not able:
        raise SolkitError("no configuration could be captured")
    if len(able) <= LOWERED_PER_KEPT * number:
        meanwhile = partial(_load_model, surrogate)
        facts = dict(zip(able, _lower_launches([launches[n] for n in able], device, meanwhile)))
    else:
        facts = _lower_promising(launches, able, device, surrogate, number)
    forecasts = _forecast_launches(launches, facts, device, surrogate())
    fails = np.array(
        [
            launch.captured is None or _cannot_run(facts.get(place), device)
            for place, launch in enumerate(launches)
        ]
    )
    return _choose_launches(forecasts, fails, number)


def _load_model(surrogate: Callable[[], Surrogate]) -> None:
    """Load a model, and its trees if it has some."""
    model = surrogate()
    with contextlib.suppress(SolkitError):
        model.trees(Depth.LOWERED)


def _lower_promising(
    launches: Sequence[Launch],
    able: Sequence[int],
    device: Device,
    surrogate: Callable[[], Surrogate],
    number: int,
) -> dict[int, Facts | None]:
    """Return facts of the launches whose forecasts as captured are the best."""
    facts = _probe_launches(launches, able, device)
    forecasts = _forecast_launches(launches, facts, device, surrogate())
    order = sorted(able, key=lambda place: _sortable_time(float(forecasts.time_ms[place])))
    more = [place for place in order[: LOWERED_PER_KEPT * number] if place not in facts]
    return facts | dict(zip(more, _lower_launches([launches[n] for n in more], device)))


def compile_ahead(launches: Sequence[Launch], device: Device) -> None:
    """Compile launches into Triton's cache, at once on several cores. Errors are left to Triton."""
    captured = [launch.captured for launch in launches if launch.captured is not None]
    calls = [
        partial(_compile_captured, launch, device)
        for launch in captured
        if not is_in_cache(launch.kernel, device)
    ]
    if _may_fork_process() and min(_usable_cores(), len(calls)) > 1:
        prepare()
        call_in_forks(calls, lambda _: None, _job_count(len(calls)), _LIMIT_S)


def _compile_captured(captured: CapturedLaunch, device: Device) -> None:
    with contextlib.suppress(Exception):
        fill_cache(captured.kernel, device)


def _choose_launches(forecasts: Forecasts, fails: Array, number: int) -> list[int]:
    order, acts = plan_actions(forecasts.time_ms, forecasts.low_ms, fails, [0], number)
    kept = {place for place, (action, _) in enumerate(acts) if action is not Action.SKIP}
    kept.add(0)
    for place in map(int, order):  # forecasts of failure may be wrong: never fewer than asked
        if len(kept) >= number:
            break
        kept.add(place)
    return sorted(kept)


# -------------------------------------------------------------------------------------- lowering


def _probe_launches(
    launches: Sequence[Launch], able: Sequence[int], device: Device
) -> dict[int, Facts | None]:
    """Return the facts of the first launch that can be lowered, and of those before it."""
    facts_by_place: dict[int, Facts | None] = {}
    for place in able[:_PROBES]:
        facts_by_place[place] = _lower_launches([launches[place]], device)[0]
        facts = facts_by_place[place]
        if facts is not None and facts.requests is not None:
            break
    return facts_by_place


def _lower_launches(
    launches: Sequence[Launch], device: Device, meanwhile: Callable[[], None] = lambda: None
) -> list[Facts | None]:
    """Return lowered facts, ``None`` where the process ended; `meanwhile` is called beside it."""
    if not launches:
        return []
    prepare()
    if not _may_fork_process():
        return _share_facts(launches, device)
    jobs = _job_count(len(launches))
    shares = [launches[place::jobs] for place in range(jobs)]

    def failed(_: str) -> list[Facts | None]:
        return []

    calls = [partial(_share_facts, share, device) for share in shares]
    facts_of_shares = call_in_forks(calls, failed, jobs, _LIMIT_S, meanwhile=meanwhile)
    all_facts: list[Facts | None] = [None] * len(launches)
    for place, facts in enumerate(facts_of_shares):
        all_facts[place::jobs] = facts or [None] * len(shares[place])
    return all_facts


def _share_facts(launches: Sequence[Launch], device: Device) -> list[Facts | None]:
    facts: list[Facts | None] = []
    for launch in launches:
        assert launch.captured is not None
        lowered = lower_for(launch.captured.kernel, device)
        facts.append(facts_of(launch.captured, lowered, device, Depth.LOWERED))
    return facts


def _may_fork_process() -> bool:
    """Python lets daemonic processes, such as workers of a serving engine, have no children."""
    return not multiprocessing.current_process().daemon


def _job_count(number: int) -> int:
    return max(min(_usable_cores(), number, _MOST_JOBS), 1)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0))


# ------------------------------------------------------------------------------------ forecasting


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
