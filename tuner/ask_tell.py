"""Ask what to measure next, and tell what it took: for loops that measure by themselves.

The plan's candidates come first. Then a `Search` decides, which starts from the plan's forecasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solkit.core import Configuration, Forecast, Params, Space, canonical
from solkit.errors import InputError
from solkit.surrogate.features import Array
from solkit.surrogate.plan import Action, Plan, Ranked
from solkit.tuner.search import Search

_KERNEL = "kernel file"  # the parameter that tells several kernels apart
_NINETY = 1.645  # standard deviations on either side of the mean of a 90 % interval


class AskTell:
    """Candidates of one problem at one shape.

    Args:
        plan: the candidates, ranked.
        seed: of the search. The same seed and times give the same answers.
    """

    def __init__(self, plan: Plan, seed: int = 0) -> None:
        self.plan, self._seed = plan, seed
        self._places = {
            _candidate_key(ranked.configuration): at for at, ranked in enumerate(plan.ranked)
        }
        self._points = _points_of(plan)
        self._by_point = {canonical(point): at for at, point in enumerate(self._points)}
        self._asked: set[int] = set()
        self._told: dict[int, float | None] = {}
        self._able: set[int] = set()  # places of what the search may ask for
        self._search: Search | None = None

    def ask(self, number: int = 1) -> list[Ranked]:
        """Return what to measure next: none twice, and fewer only if no more are left."""
        chosen: list[Ranked] = []
        while len(chosen) < number and (ranked := self._next_candidate()) is not None:
            chosen.append(ranked)
        return chosen

    def tell(self, configuration: Configuration, time_ms: float | None) -> None:
        """Say what a candidate took, whether it was asked for or not.

        Args:
            configuration: one of the plan's.
            time_ms: ``None`` if it failed.

        Raises:
            InputError: the plan has no such candidate, or the time is not positive and finite.
        """
        if not self.knows(configuration):
            raise InputError(f"the plan has no candidate with {canonical(configuration.params)}")
        if time_ms is not None and not (math.isfinite(time_ms) and time_ms > 0):
            raise InputError(f"time_ms is {time_ms!r}; expected a positive number, or None")
        place = self._places[_candidate_key(configuration)]
        self._asked.add(place)
        self._told[place] = time_ms
        if self._search is not None and place in self._able:
            self._search.tell(self._points[place], time_ms)

    def knows(self, configuration: Configuration) -> bool:
        """Tell whether the plan has this candidate."""
        return _candidate_key(configuration) in self._places

    @property
    def best(self) -> tuple[Ranked, float] | None:
        """The fastest that was told, with its time in ms; ``None`` before that."""
        times = {place: time for place, time in self._told.items() if time is not None}
        if not times:
            return None
        place = min(times, key=lambda at: (times[at], at))
        return self.plan.ranked[place], times[place]

    @property
    def exhausted(self) -> bool:
        """True if every candidate was asked for or told."""
        return len(self._asked) == len(self.plan.ranked)

    # ----------------------------------------------------------------------------------- answers

    def _next_candidate(self) -> Ranked | None:
        rest = [at for at in range(len(self.plan.ranked)) if at not in self._asked]
        planned = [at for at in rest if self.plan.ranked[at].action is not Action.SKIP]
        if planned:
            answer = self.plan.ranked[planned[0]]
        elif (guided := self._ask_search()) is not None:
            answer = guided
        elif rest:  # forecasts of failure may be wrong
            answer = self.plan.ranked[rest[0]]
        else:
            return None
        self._asked.add(self._places[_candidate_key(answer.configuration)])
        return answer

    def _ask_search(self) -> Ranked | None:
        """Return what the search asks for, with its forecast."""
        search = self._informed_search()
        points = search.ask()
        if not points:
            return None
        mean, sd = search.forecast(points)
        ranked = self.plan.ranked[self._by_point[canonical(points[0])]]
        if not np.isfinite(mean[0]):
            return replace(ranked, action=Action.EXPLORE, reason="Nothing is known of it.")
        wide = _NINETY * sd[0] if np.isfinite(sd[0]) else math.nan
        low_ms, high_ms = (
            float(2.0 ** (mean[0] + offset)) if math.isfinite(offset) else None
            for offset in (-wide, wide)
        )
        forecast = Forecast(float(2.0 ** mean[0]), low_ms, high_ms, ranked.forecast.p_fail, False)
        reason = "It is expected to gain most, by its forecast or by how unsure that is."
        return replace(ranked, forecast=forecast, action=Action.MEASURE, reason=reason, pushes=())

    def _informed_search(self) -> Search:
        """Return the search, which knows what was asked for and told."""
        if self._search is None:
            able = [at for at, ranked in enumerate(self.plan.ranked) if ranked.forecast.p_fail < 1]
            points = [self._points[at] for at in able]
            self._able = set(able)
            self._search = Search(
                Space.of_points(points), prior=PlanPrior(self._forecast_points()), seed=self._seed
            )
            for place in sorted(self._asked & self._able):
                self._search.expect(self._points[place])
            for place in sorted(self._told.keys() & self._able):
                self._search.tell(self._points[place], self._told[place])
        return self._search

    def _forecast_points(self) -> Plan:
        """Return the plan, of the search's points."""
        ranked = tuple(
            replace(ranked, configuration=replace(ranked.configuration, params=point))
            for ranked, point in zip(self.plan.ranked, self._points, strict=True)
        )
        return replace(self.plan, ranked=ranked)


def _points_of(plan: Plan) -> list[Params]:
    """Return each candidate's parameters; of several kernels also which, and None for others'."""
    kernels = {_kernel_identity(ranked.configuration) for ranked in plan.ranked}
    if len(kernels) < 2:
        return [ranked.configuration.params for ranked in plan.ranked]
    names = dict.fromkeys(name for ranked in plan.ranked for name in ranked.configuration.params)
    return [
        {
            _KERNEL: _kernel_identity(ranked.configuration),
            **{name: ranked.configuration.params.get(name) for name in names},
        }
        for ranked in plan.ranked
    ]


def _kernel_identity(configuration: Configuration) -> str:
    return f"{configuration.path}:{configuration.entry_point}"


def _candidate_key(configuration: Configuration) -> tuple[str, str, str]:
    return configuration.path, configuration.entry_point, canonical(configuration.params)


_UNSURE = 1.0  # in log2: where a forecast has no interval, or is the kernel model's


class PlanPrior:
    """The forecasts of a plan; nothing is known of other points.

    Args:
        plan: for one shape.

    Attributes:
        plan: as given.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._of = {canonical(e.configuration.params): e.forecast for e in plan.ranked}

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and sd of log2(time / ms), each (points,); nan where unknown."""
        pairs = [_log2_forecast(self._of.get(canonical(point))) for point in points]
        mean, sd = np.array(pairs, float).reshape(-1, 2).T
        return mean, sd

    def fails(self, points: Sequence[Params]) -> Array:
        """Return the chance that each fails, (points,); 0 where unknown."""
        forecasts = [self._of.get(canonical(point)) for point in points]
        return np.array([0.0 if forecast is None else forecast.p_fail for forecast in forecasts])


def _log2_forecast(forecast: Forecast | None) -> tuple[float, float]:
    if forecast is None or forecast.time_ms is None:
        return np.nan, np.nan
    mean = float(np.log2(forecast.time_ms))
    if forecast.abstains or forecast.low_ms is None or forecast.high_ms is None:
        return mean, _UNSURE
    return mean, float(np.log2(forecast.high_ms / forecast.low_ms)) / (2 * _NINETY)
