"""Replays of searches in a recorded space, to see how fast they find the best: no GPU, no waiting.

A space is recorded if every configuration in it was measured. A search asks for configurations one
by one, and is told what was recorded. Its score after n measurements is the best time of the space
over the best that it found; a failure costs a measurement.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from solkit.core import Outcome, Params, Space, Verdict
from solkit.core.space import PointKey, point_key
from solkit.errors import InputError
from solkit.tuner.search import Prior, Recordings, Search

SCHEMA = "solkit.replay/1"

LEAST = 60
"""Configurations of a kernel at a shape in a store that count as a recorded space."""


class _SearchMethod(Protocol):
    """Search that is replayed: anything that asks for points and is told times."""

    def ask(self, number: int = 1) -> list[Params]: ...
    def tell(self, params: Params, time_ms: float | None) -> None: ...


Method = Callable[["RecordedSpace", Prior | None, int], _SearchMethod]
"""Constructor of a search from a space, a prior and a seed."""


@dataclass(frozen=True)
class RecordedSpace:
    """Every configuration of a kernel at one shape on one GPU, measured.

    Attributes:
        kernel: the kernel, and its shape if it has one.
        device: the GPU.
        times_ms: by point; ``None`` if it failed.
        points: the configurations, in the order recorded.
    """

    kernel: str
    device: str
    times_ms: Mapping[PointKey, float | None]
    points: tuple[Params, ...]

    @property
    def name(self) -> str:
        """Name of what is replayed."""
        return f"{self.kernel} on {self.device}"

    @cached_property
    def space(self) -> Space:
        """The recorded points."""
        return Space.of_points(self.points)

    @cached_property
    def best_ms(self) -> float:
        """The best time."""
        return min(time for time in self.times_ms.values() if time is not None)

    def time_ms(self, params: Params) -> float | None:
        """Return what was recorded; ``None`` for a failure."""
        return self.times_ms[point_key(params)]


@dataclass(frozen=True)
class Replay:
    """A method on one space.

    Attributes:
        space: the space's name.
        method: the method's name.
        seeds: how many runs, with seeds from 0.
        fractions: by budget, best time over the best found, a value a seed; 0 if nothing ran.
    """

    space: str
    method: str
    seeds: int
    fractions: Mapping[int, tuple[float, ...]]

    def medians(self) -> dict[int, float]:
        """Return the median over seeds, by budget."""
        return {budget: statistics.median(values) for budget, values in self.fractions.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the replay as `solkit.replay/1`."""
        return {
            "schema": SCHEMA,
            "space": self.space,
            "method": self.method,
            "seeds": self.seeds,
            "fraction_of_optimum": {str(budget): v for budget, v in self.medians().items()},
        }


# -------------------------------------------------------------------------------------- methods


class _Random:
    """Every point once, in random order."""

    def __init__(self, space: RecordedSpace, prior: Prior | None, seed: int) -> None:
        del prior  # chance knows nothing
        self._points = list(space.points)
        random.Random(seed).shuffle(self._points)

    def ask(self, number: int = 1) -> list[Params]:
        """Return the next points."""
        points, self._points = self._points[:number], self._points[number:]
        return points

    def tell(self, params: Params, time_ms: float | None) -> None:
        """Ignore the time: nothing is learned."""


def _search_method(space: RecordedSpace, prior: Prior | None, seed: int) -> _SearchMethod:
    return Search(space.space, prior=prior, seed=seed)


def _tpe_method(space: RecordedSpace, prior: Prior | None, seed: int) -> _SearchMethod:
    from solkit.tuner.optuna_samplers import OptunaSearch

    return OptunaSearch.tpe_sampler(space.space, prior, seed)


def _optuna_gp(space: RecordedSpace, prior: Prior | None, seed: int) -> _SearchMethod:
    from solkit.tuner.optuna_samplers import OptunaSearch

    return OptunaSearch.gaussian_process_sampler(space.space, prior, seed)


METHODS: dict[str, Method] = {
    "solkit": _search_method,
    "random": _Random,
    "tpe": _tpe_method,
    "optuna-gp": _optuna_gp,
}
"""Methods that can be replayed, by name."""


def method_named(name: str) -> Method:
    """Return a method of `METHODS`.

    Raises:
        InputError: there is none of this name.
        UnsupportedError: it needs Optuna.
    """
    if name not in METHODS:
        raise InputError(f"no method {name!r}; choose one of: {', '.join(METHODS)}")
    if METHODS[name] in (_tpe_method, _optuna_gp):
        import solkit.tuner.optuna_samplers  # noqa: F401 - whether Optuna is installed
    return METHODS[name]


def replay_method(
    space: RecordedSpace,
    budgets: Sequence[int],
    seeds: int,
    method: str | tuple[str, Method] = "solkit",
    prior: Prior | None = None,
) -> Replay:
    """Run a method on a space with each seed.

    Args:
        space: the space.
        budgets: numbers of measurements at which to score it.
        seeds: how many runs.
        method: a key of `METHODS`, or a name with a method.
        prior: what is known beforehand.

    Raises:
        InputError: there is no such method.
    """
    name, make = (method, method_named(method)) if isinstance(method, str) else method
    curves = [_score_curve(space, make(space, prior, seed), max(budgets)) for seed in range(seeds)]
    fractions = {n: tuple(curve[min(n, len(curve)) - 1] for curve in curves) for n in budgets}
    return Replay(space.name, name, seeds, fractions)


def _score_curve(space: RecordedSpace, asks: _SearchMethod, budget: int) -> list[float]:
    """Return the score after each measurement of another configuration."""
    seen: set[PointKey] = set()
    curve: list[float] = []
    best = math.inf
    while len(curve) < min(budget, len(space.points)) and (batch := asks.ask()):
        for params in batch:
            time_ms = space.time_ms(params)
            asks.tell(params, time_ms)
            if (key := point_key(params)) not in seen:
                seen.add(key)
                best = min(best, math.inf if time_ms is None else time_ms)
                curve.append(space.best_ms / best)
    return curve or [0.0]


# -------------------------------------------------------------------------------------- reading


def read_spaces(
    path: str | os.PathLike[str], where: str | None = None, least: int | None = None
) -> list[RecordedSpace]:
    """Return the recorded spaces of a file or a store, largest first.

    Args:
        path: a file that `solkit data import` accepts, a store's folder, or a shipped set's name.
        where: a condition in SQL that selects rows of a store.
        least: configurations that a space must have; by default `LEAST` in a store, else 1.

    Raises:
        InputError: it cannot be read, or has no such space.
    """
    store = _is_store_folder(path)
    recorded = _spaces_of_store(path, where) if store else _spaces_of_file(path, where)
    least = least or (LEAST if store else 1)
    spaces = [
        RecordedSpace(kernel, device, times, tuple(points[key] for key in times))
        for (kernel, device), (times, points) in recorded.items()
        if len(times) >= least and any(time is not None for time in times.values())
    ]
    if not spaces:
        rows = sum(len(times) for times, _ in recorded.values())
        raise InputError(
            f"{path} has no recorded space: {rows} configurations of {len(recorded)} kernels, "
            f"shapes and GPUs; a space has at least {least}, one of which ran"
        )
    return sorted(spaces, key=lambda space: (-len(space.points), space.name))


_Times = dict[PointKey, float | None]
_Found = dict[tuple[str, str], tuple[_Times, dict[PointKey, Params]]]


def _is_store_folder(path: str | os.PathLike[str]) -> bool:
    return Path(path).is_dir() or (not Path(path).exists() and Path(path).name == str(path))


def _spaces_of_file(path: str | os.PathLike[str], where: str | None) -> _Found:
    from solkit.datasets.formats import Labels, read
    from solkit.datasets.outcomelog import is_outcome_log

    if where is not None:
        raise InputError(f"{path} is a file: only a store can be filtered")
    labels = Labels() if is_outcome_log(path) else Labels(device=_UNNAMED)
    groups: dict[tuple[str, str], dict[PointKey, list[Outcome]]] = defaultdict(dict)
    for row in read(path, labels=labels).rows:
        if row.comparison is None and (row.verdict is not Verdict.NOT_MEASURED or row.time_ms):
            device = row.device_name or row.device
            named = Path(path).name if device == _UNNAMED else device
            group = groups[(row.problem_id if row.shape else row.family), named]
            group.setdefault(point_key(row.params), []).append(row)
    return {
        name: (
            {
                key: _median_time(row.time_ms for row in rows if _time_counts(row))
                for key, rows in g.items()
            },
            {key: rows[0].params for key, rows in g.items()},
        )
        for name, g in groups.items()
    }


_UNNAMED = "unnamed GPU"


def _time_counts(row: Outcome) -> bool:
    """Tell whether a row has a time that counts: it is right, or another tool did not check it."""
    return row.time_ms is not None and (row.verdict.is_right or row.verdict is Verdict.NOT_MEASURED)


def _median_time(times_ms: Iterable[float | None]) -> float | None:
    timed_ms = [time for time in times_ms if time is not None]
    return statistics.median(timed_ms) if timed_ms else None


def _spaces_of_store(path: str | os.PathLike[str], where: str | None) -> _Found:
    from solkit.datasets.store import Store, configurations, shipped

    store = Store(path) if Path(path).is_dir() else shipped(str(path))
    rows = configurations(store.where(where)).sort("kernel_id", "problem_id", "device", "params")
    columns = ("kernel_id", "problem_id", "device", "params", "time_ms")
    spaces: _Found = {}
    for kernel, problem, device, text, time_ms in rows.select(columns).collect().iter_rows():
        params = json.loads(text)
        times, points = spaces.setdefault((f"{problem} {kernel[:8]}", device), ({}, {}))
        key = point_key(params)
        times[key], points[key] = time_ms, params
    return spaces


def prior_from_recordings(
    space: RecordedSpace, paths: Sequence[str | os.PathLike[str]]
) -> Recordings | None:
    """Return what recordings on other GPUs tell of a space; ``None`` without any.

    A file's spaces of the same kernel count, or its only space.

    Raises:
        InputError: a file has no configuration of the space.
    """
    recordings = []
    for path in paths:
        spaces = read_spaces(path)
        same = [other for other in spaces if other.kernel == space.kernel]
        alike = [other for other in same or spaces if other.times_ms.keys() & space.times_ms.keys()]
        if not alike or (len(alike) > 1 and not same):
            names = ", ".join(space.space.values)
            raise InputError(
                f"{path} has no recording of {space.kernel} with the parameters {names}"
            )
        recordings += [other.times_ms for other in alike]
    return Recordings(recordings) if recordings else None
