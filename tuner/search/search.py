"""Ask what to measure next in a space, and tell what it took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from solkit.core import Space
from solkit.core.space import Params
from solkit.errors import InputError
from solkit.tuner.search.candidates import Candidates
from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.model import Model, Rows
from solkit.tuner.search.prior_features import PriorFeatures
from solkit.tuner.search.priors import Prior

__all__ = ["DEFAULTS", "Search", "SearchSettings"]


@dataclass(frozen=True)
class SearchSettings:
    """One setting for all spaces.

    Attributes:
        starts: measurements of the initial design, which spreads over the space. With a prior it
            is the first that the model without the prior may decide. Until then the points with
            the lowest forecast are measured, unless the prior has views: which of these to follow
            is to be found out.
        considered: points among which an answer is chosen.
        slow: what is left of differences among the slower half of times, so that the model
            resolves the faster half.
        stuck: answers without a better time after which the search descends.
        descends: every so many answers of a stuck search are those with the lowest forecast.
        doubts: every so many answers are those of a second model, which has no prior and also tells
            values apart by equality.
        flexible: answers after which the second model takes part where there is no prior.
    """

    starts: int = 8
    considered: int = 5000
    slow: float = 0.3
    stuck: int = 20
    descends: int = 3
    doubts: int = 3
    flexible: int = 40


DEFAULTS = SearchSettings()

_DESIGNED = 400  # points among which the farthest is found
_HOPE = 0.5  # standard deviations below the mean, in a descent
_ROOT_2PI = math.sqrt(2 * math.pi)


class Search:
    """Ask what to measure next in a space; tell what it took.

    Args:
        space: the space.
        prior: what is believed before the first measurement.
        first: points measured first, in this order; those that are not in the space are left out.
        seed: the same seed and times give the same answers.
        settings: of the policy.

    Raises:
        InputError: the space is empty, or so few of its points are legal that none is found.
    """

    def __init__(
        self,
        space: Space,
        *,
        prior: Prior | None = None,
        first: Sequence[Params] = (),
        seed: int = 0,
        settings: SearchSettings = DEFAULTS,
    ) -> None:
        self._settings, self._encoding = settings, Encoding(space)
        self._candidates = Candidates(space, self._encoding, seed)
        self._chance = np.random.default_rng(seed)
        self._first = [self._encoding.places([p])[0] for p in first if p in space]
        self._rows = Rows()
        self._at: dict[int, int] = {}  # by key, the row's number
        sample = self._candidates.spread(settings.considered)
        # telling values apart by equality takes many times to learn: the first model does without
        plain = Encoding(space, named=0)
        self._model = self._modelled(PriorFeatures(plain, prior, sample, settings.slow))
        self._believes = self._model.prior.scale is not None
        self._follows = self._believes and not self._model.prior.views
        nothing = PriorFeatures(self._encoding, None, sample, settings.slow)
        self._models = [self._model, self._modelled(nothing)]

    def _modelled(self, prior: PriorFeatures) -> Model:
        settings = self._settings
        return Model(
            self._encoding,
            prior,
            self._candidates,
            self._rows,
            settings.considered,
            settings.slow,
        )

    # ----------------------------------------------------------------------------------- public

    def ask(self, number: int = 1) -> list[Params]:
        """Return what to measure next: no point twice, and fewer only if no more are left."""
        answers: list[Params] = []
        while len(answers) < number and (places := self._next()) is not None:
            self._row(places)
            answers.append(self._encoding.point(places))
        return answers

    def expect(self, params: Params) -> None:
        """Say that a point is being measured, though it was not asked for: it counts as pending.

        Raises:
            ParamsError: the space has no such point.
        """
        self._row(self._encoding.places([params])[0])

    def tell(self, params: Params, time_ms: float | None, cost_s: float | None = None) -> None:
        """Say what a point took, whether it was asked for or not; the last word on it counts.

        Args:
            params: the point.
            time_ms: ``None`` if it failed.
            cost_s: seconds that measuring it took, of the GPU and of compiling.

        Raises:
            ParamsError: the space has no such point.
            InputError: the time is not a positive number.
        """
        if time_ms is not None and not (math.isfinite(time_ms) and time_ms > 0):
            raise InputError(f"time_ms is {time_ms!r}; expected a positive number, or None")
        before = self._rows.best
        row = self._row(self._encoding.places([params])[0])
        self._rows.failed[row] = time_ms is None
        self._rows.log2_ms[row] = math.nan if time_ms is None else math.log2(time_ms)
        self._rows.log_cost[row] = math.log(cost_s) if cost_s and cost_s > 0 else math.nan
        if self._rows.best not in (before, None):
            for model in self._models:
                model.improved()

    @property
    def best(self) -> tuple[Params, float] | None:
        """The fastest point told, and its time in ms; ``None`` before that."""
        at = self._rows.best
        if at is None:
            return None
        return self._encoding.point(self._rows.places[at]), 2.0 ** self._rows.log2_ms[at]

    @property
    def exhausted(self) -> bool:
        """True if every legal point was asked for or told."""
        return self._candidates.exhausted

    def expected_gain(self) -> float:
        """Return the share of the best time that the next measurement is expected to save, 0 to 1.

        NaN before anything was told that did not fail; 0 if no point is left.
        """
        if self.best is None:
            return math.nan
        model = self._model
        model.renewed()
        if not model.free.any():
            return 0.0
        mean, sd = model.log2_ms(*model.targets())
        best = math.log2(self.best[1])
        # the mean of max(0, 1 - 2^(y - best)) for a normal y: a lognormal's partial expectation
        step = (best - mean) / sd
        rate = sd * math.log(2)
        later = np.exp(np.minimum((mean - best) * math.log(2) + rate**2 / 2, 700)) * ndtr(
            step - rate
        )
        gain = (ndtr(step) - later) * (1 - model.fails())
        return float(np.clip(gain[model.free].max(), 0.0, 1.0))

    def forecast(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and standard deviation of log2(time / ms) of points, each (points,).

        NaN before anything was told, where there is no prior.

        Raises:
            ParamsError: the space has no such point.
        """
        places = self._encoding.places(points)
        if not len(places) or self._rows.best is None:
            return self._model.prior.log2_ms(places)
        return self._model.at(places)

    # ---------------------------------------------------------------------------------- choosing

    def _next(self) -> Places | None:
        while self._first:
            places = self._first.pop(0)
            if int(self._encoding.keys(places[None])[0]) not in self._at:
                return places
        starts = 1 if self._believes else self._settings.starts
        if self._rows.best is None or len(self._rows) < starts:
            return self._designed()
        model = self._asked()
        model.renewed()
        if not model.free.any():
            return None
        gains = np.where(model.free, self._wanted(model), -np.inf)
        return model.places[int(np.argmax(gains))]

    def _asked(self) -> Model:
        """Return the model that decides: in turns the second, as the first may be misled."""
        number = len(self._rows)
        since = self._settings.starts if self._believes else self._settings.flexible
        doubts = number > since and number % self._settings.doubts == 0
        return self._models[-1 if doubts else 0]

    def _wanted(self, model: Model) -> Array:
        """Return expected improvement of the target, times the chance to run, per cost.

        How low the forecast is, at first and in turns if the search is stuck.
        """
        mean, sd = model.targets()
        times = self._rows.times
        if self._follows and len(times) < self._settings.starts:
            return -(mean + model.fails() * (mean.max() - mean))  # a failure counts as the slowest
        idle = len(times) - 1 - int(np.nanargmin(times))
        if idle >= self._settings.stuck and len(times) % self._settings.descends == 1:
            return _HOPE * sd - mean
        step = (float(np.nanmin(model.scale.targets(times))) - mean) / sd
        gain = sd * (step * ndtr(step) + np.exp(-step * step / 2) / _ROOT_2PI)
        return gain * (1 - model.fails()) / model.cost()

    def _designed(self) -> Places | None:
        """Choose a point by the prior, or else the one farthest from those that were taken."""
        considered = self._candidates.spread(self._settings.considered)
        if not len(considered):
            return None
        if self._believes:
            mean, _ = self._model.prior.log2_ms(considered)
            return considered[int(np.argmin(np.nan_to_num(mean, nan=math.inf)))]
        considered = self._chance.permutation(considered)[:_DESIGNED]
        if not len(self._rows):
            return considered[0]
        encoding = self._model.prior.encoding
        ours = encoding.features(considered)
        theirs = encoding.features(np.array(self._rows.places))
        apart = ((ours[:, None] - theirs[None]) ** 2).sum(2).min(1)
        return considered[int(np.argmax(apart))]

    def _row(self, places: Places) -> int:
        """Return the number of a point's row, made if there is none."""
        key = int(self._encoding.keys(places[None])[0])
        if key not in self._at:
            self._at[key] = len(self._rows)
            self._rows.add(places)
            self._candidates.take(places)
            for model in self._models:
                model.added()
        return self._at[key]
