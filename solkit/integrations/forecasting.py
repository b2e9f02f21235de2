"""Forecasts of the surrogate for the candidates of a search loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from solkit.core import Configuration, Depth, Forecast, Value
from solkit.errors import InputError, JobDiedError
from solkit.integrations.candidates import Key, ReadCandidate, candidate_key
from solkit.integrations.grading import Graded
from solkit.pipeline.preparing import Preparation
from solkit.pipeline.shipped_surrogate import shared_model
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Ranked
from solkit.surrogate.ranking import RankSettings, Request, rank

_NO_INTERVAL = 2.0
"""Factor by which a forecast without an interval may be off: the kernel model's are."""


class Forecaster:
    """Forecasts candidates for one problem at one shape; threads may share it.

    Args:
        prepared: analyses.
        problem: the file with the reference.
        shape: sizes to override.
        surrogate: forecasts; the shipped one by default, else the kernel model.
    """

    def __init__(
        self,
        prepared: Preparation,
        problem: str,
        shape: Mapping[str, Value],
        surrogate: Surrogate | None = None,
    ) -> None:
        self._prepared, self._problem, self._shape = prepared, problem, shape
        self._surrogate = surrogate

    def ranked(self, configurations: Sequence[Configuration], depth: Depth) -> Mapping[Key, Ranked]:
        """Return forecasts; what cannot be analysed has none."""
        if not configurations:
            return {}
        try:
            forecasts = self._plan_at_depth(configurations, depth)
        except (InputError, JobDiedError):
            if len(configurations) == 1:
                return {}
            alone = [self.ranked([configuration], depth) for configuration in configurations]
            return {key: forecast for forecasts in alone for key, forecast in forecasts.items()}
        return {
            candidate_key(e.configuration): e for e in forecasts if e.forecast.time_ms is not None
        }

    def settle_choices(
        self, read: Sequence[ReadCandidate | Graded]
    ) -> list[ReadCandidate | Graded]:
        """List candidates with one choice of parameters each: the one forecast fastest."""
        return [
            self._choose_best(candidate)
            if isinstance(candidate, ReadCandidate) and len(candidate.points) > 1
            else candidate
            for candidate in read
        ]

    def _choose_best(self, read: ReadCandidate) -> ReadCandidate:
        every = [replace(read.configuration, params=params) for params in read.points]
        ranked = self.ranked(every, Depth.CAPTURED)
        times = [
            (_forecast_time(ranked.get(candidate_key(configuration))), place)
            for place, configuration in enumerate(every)
        ]
        best = every[min(times)[1]]
        return ReadCandidate(best, (best.params,))

    def _plan_at_depth(
        self, configurations: Sequence[Configuration], depth: Depth
    ) -> tuple[Ranked, ...]:
        points: dict[str, list[Mapping[str, Value]]] = {}
        for configuration in configurations:
            points.setdefault(configuration.path, []).append(configuration.params)
        reference = None if points.keys() == {self._problem} else self._problem
        settings = RankSettings(depth, explained=0)
        request = Request(list(points), reference, [self._shape], points, 1, settings)
        (plan,) = rank(request, self._prepared.analyser, self._surrogate or shared_model())
        return plan.ranked


def optimistic(forecast: Forecast) -> float | None:
    """Return the low end of a forecast; ``None`` if it says nothing."""
    if forecast.abstains or forecast.time_ms is None:
        return None
    return forecast.time_ms / _NO_INTERVAL if forecast.low_ms is None else forecast.low_ms


def _forecast_time(ranked: Ranked | None) -> float:
    """Return the forecast; what has none comes last."""
    time_ms = None if ranked is None else ranked.forecast.time_ms
    return math.inf if time_ms is None else time_ms
