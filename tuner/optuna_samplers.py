"""Samplers of Optuna's behind ask and tell: peers of the search."""

from __future__ import annotations

import warnings

import numpy as np

from solkit.core import Params, Space
from solkit.core.space import PointKey, point_key
from solkit.extras import needed
from solkit.tuner.search import Prior

with needed("optuna"):
    import optuna

_TRIES, _TRIES_GP = 200, 3  # for a legal point not asked for before: then one is drawn at random
_ENQUEUED = 10  # picks of the prior


class OptunaSearch:
    """A study that suggests points of a space.

    Each parameter is categorical, or an integer that counts its values if the sampler needs
    numbers. What is not legal is told as failed; what was told before is told again.

    Args:
        space: the space.
        sampler: of Optuna's.
        numbers: whether parameters are integers.
        prior: its best points are measured first.
        seed: of the points drawn where the sampler finds none.
    """

    def __init__(
        self,
        space: Space,
        sampler: optuna.samplers.BaseSampler,
        numbers: bool,
        prior: Prior | None,
        seed: int,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._drawn = space, space.shuffled(seed)
        self._study = optuna.create_study(sampler=sampler)
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1)
            if numbers
            else optuna.distributions.CategoricalDistribution(range(len(values)))
            for name, values in space.values.items()
            if len(values) > 1
        }
        # the process is deterministic: it suggests the same again, and takes its time
        self._tries = _TRIES_GP if numbers else _TRIES
        self._first = _fastest_believed(space, prior)
        self._trials: dict[PointKey, optuna.trial.Trial] = {}
        self._times: dict[PointKey, float | None] = {}

    @classmethod
    def tpe_sampler(cls, space: Space, prior: Prior | None, seed: int) -> OptunaSearch:
        """Return the tree-structured Parzen estimator, with its defaults."""
        return cls(space, optuna.samplers.TPESampler(seed=seed), False, prior, seed)

    @classmethod
    def gaussian_process_sampler(cls, space: Space, prior: Prior | None, seed: int) -> OptunaSearch:
        """Make Optuna's Gaussian process; it needs torch."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is experimental
            sampler = optuna.samplers.GPSampler(seed=seed, deterministic_objective=True)
        return cls(space, sampler, True, prior, seed)

    def ask(self, number: int = 1) -> list[Params]:
        """Return points not asked for before."""
        return [point for _ in range(number) if (point := self._suggest_point()) is not None]

    def tell(self, params: Params, time_ms: float | None) -> None:
        """Record the time of a point; ``None``: it failed."""
        key = point_key(params)
        self._times[key] = time_ms
        if key in self._trials:
            self._tell_trial(self._trials.pop(key), time_ms)

    def _suggest_point(self) -> Params | None:
        if self._first:
            self._study.enqueue_trial(self._value_indices(self._first.pop(0)))
        for _ in range(self._tries):
            trial = self._study.ask(self._distributions)
            point = {
                name: values[int(trial.params.get(name, 0))]
                for name, values in self._space.values.items()
            }
            key = point_key(point)
            if point not in self._space:
                self._tell_trial(trial, None)
            elif key in self._times:
                self._tell_trial(trial, self._times[key])
            else:
                self._trials[key] = trial
                return point
        taken = self._times.keys() | self._trials.keys()
        return next((point for point in self._drawn if point_key(point) not in taken), None)

    def _tell_trial(self, trial: optuna.trial.Trial, time_ms: float | None) -> None:
        failed = optuna.trial.TrialState.FAIL
        if time_ms is None:
            self._study.tell(trial, state=failed)
        else:
            self._study.tell(trial, time_ms)

    def _value_indices(self, point: Params) -> dict[str, int]:
        places = dict(zip(self._space.values, self._space.places(point), strict=True))
        return {name: places[name] for name in self._distributions}


def _fastest_believed(space: Space, prior: Prior | None) -> list[Params]:
    """Return the points that a prior believes to be the fastest."""
    if prior is None:
        return []
    points = list(space.walk())
    mean = np.nan_to_num(prior.log2_ms(points)[0], nan=np.inf)
    return [points[at] for at in np.argsort(mean)[:_ENQUEUED]]
