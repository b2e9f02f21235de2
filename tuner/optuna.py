"""The search as a sampler of Optuna's, for any study with one objective.

::

    from solkit.tuner.optuna import SolKitSampler

    study = optuna.create_study(sampler=SolKitSampler(seed=0))
    study.optimize(objective, n_trials=100, n_jobs=4)

It works from the study's trials alone, so it goes on with a study in a database, and several
processes may share one.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.adapters.versions import warn_if_untested
from solkit.core import Params, Space
from solkit.errors import InputError
from solkit.extras import needed
from solkit.tuner.search import DEFAULTS, Prior, Search, SearchSettings

with needed("optuna"):
    import optuna
    from optuna.trial import TrialState

warn_if_untested("optuna", optuna.__version__)

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_STEPS = 64
"""A number with more values than this is searched at so many of them."""

_SPREAD = 16
"""Trials after which the spread of values that are no times is known well enough."""


class StudySampler(optuna.samplers.BaseSampler):  # type: ignore[misc,unused-ignore]
    """A sampler that learns from a study's trials; what it has no answer for is drawn at random.

    Args:
        seed: of what is drawn at random.
    """

    def __init__(self, seed: int | None) -> None:
        self._random = optuna.samplers.RandomSampler(seed)
        self._lock = threading.Lock()  # threads share a sampler

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a value at random."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Draw other random numbers; Optuna asks for it before each trial of several threads.

        What is learned stays: it knows which points the other threads are trying.
        """
        self._random.reseed_rng()


class SolKitSampler(StudySampler):
    """Suggests what `solkit.tuner.Search` asks for.

    Numbers are searched at 64 of their values if they have more, by step or on the logarithm as
    the distribution says. A parameter that only some trials have, and every parameter of the first
    trial, is drawn at random; so is everything once all points were tried. Failed trials are
    learned from; of a pruned one the median of what it reported counts.

    Objectives are best as times to be minimised, since the model is of their logarithms. Others
    are taken as they are, also those to be maximised.

    Args:
        seed: the same seed and trials give the same suggestions.
        prior: what is believed before the first trial. It is asked about the study's parameters.
        settings: of the search.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        prior: Prior | None = None,
        settings: SearchSettings = DEFAULTS,
    ) -> None:
        super().__init__(seed)
        self._seed = int(np.random.default_rng(seed).integers(2**31))
        self._prior, self._settings = prior, settings
        self._common = optuna.search_space.IntersectionSearchSpace(include_pruned=True)
        self._following: _Following | None = None

    def infer_relative_search_space(
        self,
        study: Study,
        trial: FrozenTrial,  # noqa: ARG002 - Optuna's signature
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that all finished trials have."""
        with self._lock:
            common = self._common.calculate(study)
        return {
            name: distribution for name, distribution in common.items() if not distribution.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the point that the search asks for, pending trials considered.

        Raises:
            InputError: the study has several objectives.
        """
        if len(study.directions) > 1:
            raise InputError(f"the study has {len(study.directions)} objectives: expected one")
        if not search_space:
            return {}
        trials = study.get_trials(deepcopy=False)
        with self._lock:
            following = self._following
            if following is None or not following.fits(study, search_space, trials):
                following = _Following(study, search_space, trials, self._make)
                self._following = following
            params = following.ask(trials, trial.number)
        return dict(params) if params is not None else {}

    def _make(self, space: Space) -> Search:
        return Search(space, prior=self._prior, seed=self._seed, settings=self._settings)


class _Following:
    """A search that follows a study's trials.

    Args:
        study: the study.
        distributions: of the parameters that are searched.
        trials: of the study.
        make: a search in a space.
    """

    def __init__(
        self,
        study: Study,
        distributions: dict[str, BaseDistribution],
        trials: Sequence[FrozenTrial],
        make: Any,
    ) -> None:
        self._study, self._distributions = study._study_id, distributions
        self._search: Search = make(space_of(distributions))
        self._sign = 1 if study.direction is optuna.study.StudyDirection.MINIMIZE else -1
        values = _values(trials)
        self._times = self._sign > 0 and all(value > 0 for value in values)
        self._middle = statistics.median(values) if values else 0.0
        self._spread = statistics.pstdev(values) or abs(self._middle) or 1.0 if values else 1.0
        self._settled = self._times or len(values) >= _SPREAD
        self._told: set[int] = set()  # numbers of finished trials
        self._seen: set[int] = set()  # of running ones

    def fits(
        self,
        study: Study,
        distributions: dict[str, BaseDistribution],
        trials: Sequence[FrozenTrial],
    ) -> bool:
        """Tell whether it can go on, or the space or the meaning of values changed."""
        values = _values(trials)
        if self._times and any(value <= 0 for value in values):
            return False
        if not self._settled and len(values) > 1:
            return False
        return study._study_id == self._study and distributions == self._distributions

    def ask(self, trials: Sequence[FrozenTrial], number: int) -> Params | None:
        """Return what the search asks for after these trials; `number` is the trial's own."""
        for trial in trials:
            if trial.number == number or trial.number in self._told:
                continue
            if not self._distributions.keys() <= trial.params.keys():
                continue
            params = {n: _nearest(d, trial.params[n]) for n, d in self._distributions.items()}
            if trial.state.is_finished():
                self._told.add(trial.number)
                self._search.tell(params, self._time(trial))
            elif trial.number not in self._seen:
                self._seen.add(trial.number)
                self._search.expect(params)
        return next(iter(self._search.ask()), None)

    def _time(self, trial: FrozenTrial) -> float | None:
        """Return a trial's value as a time; values that are none are powers of two of the value."""
        value = value_of(trial)
        if value is None or self._times:
            return value
        exponent = self._sign * (value - self._middle) / self._spread
        return float(2.0 ** np.clip(exponent, -500, 500))


def value_of(trial: FrozenTrial) -> float | None:
    """Return what a finished trial says of its parameters; ``None`` for a failure."""
    return trial_value(trial, trial.state, trial.values)


def trial_value(
    trial: FrozenTrial, state: TrialState, values: Sequence[float] | None, above: float = -math.inf
) -> float | None:
    """Return the value of a trial that ended in this state with these values.

    A pruned trial has the median of what it reported. Values that are not finite, or not `above` a
    limit, do not count: a trial without others failed, and has ``None``.
    """
    measured: Sequence[float] = ()
    if state is TrialState.PRUNED:
        measured = tuple(trial.intermediate_values.values())
    elif state is TrialState.COMPLETE:
        measured = (values or ())[:1]
    usable = [value for value in measured if above < value < math.inf]
    return statistics.median(usable) if usable else None


def _values(trials: Sequence[FrozenTrial]) -> list[float]:
    finished = (value_of(trial) for trial in trials if trial.state.is_finished())
    return [value for value in finished if value is not None]


def space_of(distributions: dict[str, BaseDistribution]) -> Space:
    """Return the points that a search considers.

    Categories must be numbers, booleans, strings or ``None``.

    Raises:
        ParamsError: one is something else.
    """
    return Space({name: _considered(distribution) for name, distribution in distributions.items()})


def _considered(distribution: BaseDistribution) -> tuple[Any, ...]:
    """Return the values of a parameter that are considered."""
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return tuple(distribution.choices)
    low, high = distribution.low, distribution.high  # type: ignore[attr-defined]
    step = distribution.step  # type: ignore[attr-defined]
    count = math.inf if step is None else math.floor((high - low) / step + 1e-9) + 1
    if count <= _STEPS:
        every = [low + at * step for at in range(int(count))]
    elif distribution.log:  # type: ignore[attr-defined]
        every = np.geomspace(low, high, _STEPS).tolist()
    else:
        every = np.linspace(low, high, _STEPS).tolist()
    if isinstance(distribution, optuna.distributions.IntDistribution):
        return tuple(dict.fromkeys(low + round((value - low) / step) * step for value in every))
    if step is not None:
        every = [low + round((value - low) / step) * step for value in every]
    return tuple(dict.fromkeys(min(max(float(value), low), high) for value in every))


def _nearest(distribution: BaseDistribution, value: Any) -> Any:
    """Return the value considered that is nearest to a trial's."""
    considered = _considered(distribution)
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return next(
            choice for choice in considered if type(choice) is type(value) and choice == value
        )
    if distribution.log:  # type: ignore[attr-defined]
        return min(considered, key=lambda option: abs(math.log(option / value)))
    return min(considered, key=lambda option: abs(option - value))
