"""Choice of a kernel's launches that are worth timing, in a live process without a kernel file.

There is no reference at hand, so the problem is the kernel's own work: the least traffic and the
fewest operations that any of its lowered launches asks for.

The program waits for this, so the parts go on at once: launches are lowered in forks, which import
what follows a kernel, while this process imports what forecasts, and loads the model.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from solkit.adapters.launch_recording import CapturedLaunch
from solkit.adapters.triton_compiler import fill_cache, is_in_cache, lower_for
from solkit.adapters.triton_startup import import_launching, prepare
from solkit.core import Depth, Device, Facts, Value
from solkit.errors import SolkitError
from solkit.processes.imports import other_thread_imports
from solkit.processes.parallel_calls import call_in_forks
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.surrogate.model import Surrogate

LOWERED_PER_KEPT = 6
"""Launches that are lowered for each one that is kept: lowering takes 0.1 s, timing 0.5 s with the
compiler. The number must not depend on the machine's cores, or the choice would."""
_LEAST_SHARE = 2
"""Launches that a fork lowers: to begin one takes as long as lowering one."""
_LIMIT_S = 30.0
"""Limit of one process that lowers a share of the launches."""
_MOST_JOBS = 16
_PROBES = 3
"""Launches that are lowered to learn what the kernel's work is, until one can be."""
_FACTS, _FORECASTS = "solkit.analysis.facts", "solkit.integrations.launch_forecasts"


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
        device: where; forecasts are of the rates that were measured on such a GPU, if some were.
        surrogate: returns the model; called while launches are lowered, as loading takes as long.
        number: how many, at the least one.

    Raises:
        SolkitError: no launch can be captured.
    """
    able = [place for place, launch in enumerate(launches) if launch.captured is not None]
    if not able:
        raise SolkitError("no configuration could be captured")
    lower = _lower_all if len(able) <= LOWERED_PER_KEPT * number else _lower_promising
    facts = lower(launches, able, device, surrogate, number)
    from solkit.integrations.launch_forecasts import choose_launches

    with span("forecasts", "tuner"):
        return choose_launches(launches, facts, device, surrogate(), number)


def _load_model(surrogate: Callable[[], Surrogate]) -> None:
    """Import what forecasts, and load a model with its trees, if it has some."""
    with span("imports and model", "tuner"):
        importlib.import_module(_FORECASTS)
        model = surrogate()
        with contextlib.suppress(SolkitError):
            model.trees(Depth.LOWERED)


def _lower_all(
    launches: Sequence[Launch],
    able: Sequence[int],
    device: Device,
    surrogate: Callable[[], Surrogate],
    _: int,
) -> dict[int, Facts | None]:
    """Return facts of all launches that can be captured."""
    meanwhile = partial(_load_model, surrogate)
    return dict(zip(able, _lower_launches([launches[n] for n in able], device, meanwhile)))


def _lower_promising(
    launches: Sequence[Launch],
    able: Sequence[int],
    device: Device,
    surrogate: Callable[[], Surrogate],
    number: int,
) -> dict[int, Facts | None]:
    """Return facts of the launches whose forecasts as captured are the best."""
    facts = _probe_launches(launches, able, device, partial(_load_model, surrogate))
    from solkit.integrations.launch_forecasts import order_launches

    order = order_launches(launches, facts, device, surrogate())
    more = [place for place in order[: LOWERED_PER_KEPT * number] if place not in facts]
    return facts | dict(zip(more, _lower_launches([launches[n] for n in more], device)))


def compile_ahead(launches: Sequence[Launch], device: Device) -> None:
    """Compile launches into Triton's cache, at once on several cores. Errors are left to Triton."""
    captured = [launch.captured for launch in launches if launch.captured is not None]
    prepare()
    calls = [
        partial(_compile_captured, launch, device)
        for launch in captured
        if not is_in_cache(launch.kernel, device)
    ]
    if calls and other_thread_imports():
        calls.pop(0)()  # with all imports, which forks might wait for
    if _may_fork_process() and min(_usable_cores(), len(calls)) > 1:
        with span("compiling", "tuner"):
            call_in_forks(calls, lambda _: None, _job_count(len(calls)), _LIMIT_S)


def _compile_captured(captured: CapturedLaunch, device: Device) -> None:
    with contextlib.suppress(Exception):
        fill_cache(captured.kernel, device)


# -------------------------------------------------------------------------------------- lowering


def _probe_launches(
    launches: Sequence[Launch], able: Sequence[int], device: Device, meanwhile: Callable[[], None]
) -> dict[int, Facts | None]:
    """Return the facts of the first launch that can be lowered, and of those before it."""
    facts_by_place: dict[int, Facts | None] = {}
    for place in able[:_PROBES]:
        facts_by_place[place] = _lower_launches([launches[place]], device, meanwhile)[0]
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
    import_launching()
    if _FORECASTS in sys.modules:  # else the forks import it while this process imports that
        importlib.import_module(_FACTS)
    if not _may_fork_process():
        meanwhile()
        return _share_facts(launches, device)
    if not other_thread_imports():
        return _lower_in_forks(launches, device, meanwhile)
    first = _share_facts(launches[:1], device)  # with all imports, which forks might wait for
    if len(launches) > 1:
        return [*first, *_lower_in_forks(launches[1:], device, meanwhile)]
    meanwhile()
    return first


def _lower_in_forks(
    launches: Sequence[Launch], device: Device, meanwhile: Callable[[], None]
) -> list[Facts | None]:
    jobs = _job_count(len(launches) // _LEAST_SHARE)
    shares = [launches[place::jobs] for place in range(jobs)]

    def failed(_: str) -> list[Facts | None]:
        return []

    calls = [partial(_share_facts, share, device) for share in shares]
    with span("lowering", "tuner"):
        facts_of_shares = call_in_forks(calls, failed, jobs, _LIMIT_S, meanwhile=meanwhile)
    all_facts: list[Facts | None] = [None] * len(launches)
    for place, facts in enumerate(facts_of_shares):
        all_facts[place::jobs] = facts or [None] * len(shares[place])
    return all_facts


def _share_facts(launches: Sequence[Launch], device: Device) -> list[Facts | None]:
    from solkit.analysis.facts import facts_of

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
