"""Ask what to measure next, and tell what it took: for loops that measure by themselves.

The plan's candidates come first. Then each answer is the candidate with the lowest forecast of a
model that has learned from all times told so far; a share of answers explores.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solkit.core import Configuration, Depth, canonical
from solkit.errors import InputError, UnsupportedError
from solkit.surrogate.features import Array
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import EXPLORED, Action, Forecast, Plan, Ranked
from solkit.surrogate.ranking import Pool
from solkit.surrogate.table import Entry, Table, tabled
from solkit.surrogate.trees import Forecasts

__all__ = ["AskTell"]


class AskTell:
    """Candidates of one problem at one shape.

    Args:
        pool: the candidates, ranked: `solkit.surrogate.ranking.pools`.
        surrogate: the model that ranked them; ``None`` if the kernel model did: nothing is learned.
        seed: decides when to explore. The same seed and times give the same answers.
    """

    def __init__(self, pool: Pool, surrogate: Surrogate | None, seed: int = 0) -> None:
        self.plan: Plan = pool.plan
        self._entries: Callable[[], list[Entry | None]] = pool.entries
        self._surrogate = surrogate
        self._random = random.Random(seed)
        self._places = {_key(each.configuration): at for at, each in enumerate(pool.plan.ranked)}
        self._asked: set[int] = set()
        self._told: dict[int, float | None] = {}
        self._tables: dict[Depth, tuple[Array, Table]] | None = None
        self._forecasts: Forecasts | None = None  # of what was told so far

    def ask(self, number: int = 1) -> list[Ranked]:
        """What to measure next: none twice, and fewer only if no more are left."""
        found: list[Ranked] = []
        while len(found) < number and (each := self._next()) is not None:
            found.append(each)
        return found

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
        place = self._places[_key(configuration)]
        self._asked.add(place)
        self._told[place] = time_ms
        self._forecasts = None

    def knows(self, configuration: Configuration) -> bool:
        """Whether the plan has this candidate."""
        return _key(configuration) in self._places

    @property
    def best(self) -> tuple[Ranked, float] | None:
        """The fastest that was told, with its time in ms; ``None`` before that."""
        times = {place: time for place, time in self._told.items() if time is not None}
        if not times:
            return None
        place = min(times, key=lambda each: (times[each], each))
        return self.plan.ranked[place], times[place]

    @property
    def exhausted(self) -> bool:
        """Whether every candidate was asked for or told."""
        return len(self._asked) == len(self.plan.ranked)

    # ----------------------------------------------------------------------------------- answers

    def _next(self) -> Ranked | None:
        left = [at for at in range(len(self.plan.ranked)) if at not in self._asked]
        planned = [at for at in left if self.plan.ranked[at].action is not Action.SKIP]
        able = [at for at in left if self.plan.ranked[at].forecast.p_fail < 1]
        if planned:
            answer = self.plan.ranked[planned[0]]
        elif able:
            answer = self._guided(able)
        elif left:  # forecasts of failure may be wrong
            answer = self.plan.ranked[left[0]]
        else:
            return None
        self._asked.add(self._places[_key(answer.configuration)])
        return answer

    def _guided(self, places: list[int]) -> Ranked:
        """The lowest forecast; or, for a share, the one that may be fastest."""
        told = self._believed()
        explores = self._random.random() < EXPLORED
        if explores and not np.isnan(told.low_ms[places]).all():
            place = min(places, key=lambda at: _or_last(float(told.low_ms[at])))
            return self._answer(place, told, Action.EXPLORE, "It may be faster than expected.")
        place = min(places, key=lambda at: _or_last(float(told.time_ms[at])))
        return self._answer(place, told, Action.MEASURE, "It has the lowest forecast of the rest.")

    def _answer(self, place: int, told: Forecasts, action: Action, reason: str) -> Ranked:
        time_ms, low_ms, high_ms = (
            float(each[place]) if np.isfinite(each[place]) else None
            for each in (told.time_ms, told.low_ms, told.high_ms)
        )
        forecast = Forecast(time_ms, low_ms, high_ms, 0.0, bool(told.abstains[place]))
        ranked = self.plan.ranked[place]
        return replace(ranked, forecast=forecast, action=action, reason=reason, pushes=())

    # ---------------------------------------------------------------------------------- learning

    def _believed(self) -> Forecasts:
        """Forecasts of all candidates with what was told; NaN for those that cannot run."""
        if self._forecasts is None:
            self._forecasts = self._learned()
        return self._forecasts

    def _learned(self) -> Forecasts:
        ranked = self.plan.ranked
        found = Forecasts.of(np.array([_number(each.forecast.time_ms) for each in ranked]))
        if self._surrogate is None:
            return found
        model = self._surrogate
        for depth, (places, table) in self._analysed().items():
            times = np.array([_number(self._told.get(int(place))) for place in places])
            with contextlib.suppress(UnsupportedError):  # a depth that the model lacks
                model = model.update(replace(table, time_ms=times), depth)
                found = found.with_(places, model.forecast(table, depth))
        return found

    def _analysed(self) -> dict[Depth, tuple[Array, Table]]:
        """Candidates that can run, by depth: their places, and what the model sees of them."""
        if self._tables is None:
            entries, self._tables = self._entries(), {}
            for depth in Depth:
                places = [
                    at
                    for at, (each, entry) in enumerate(zip(self.plan.ranked, entries, strict=True))
                    if each.depth is depth and entry is not None
                ]
                those = [entry for at in places if (entry := entries[at]) is not None]
                if those:
                    self._tables[depth] = np.array(places), tabled(those)
        return self._tables


def _key(configuration: Configuration) -> tuple[str, str, str]:
    return configuration.path, configuration.entry_point, canonical(configuration.params)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _or_last(value: float) -> float:
    return math.inf if math.isnan(value) else value
