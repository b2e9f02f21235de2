"""Ask what to measure next in a space, and tell what it took.

`PoolModel` believes something of the points that `Search` may ask for, learned from what was told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from solkit.core import BETTER, Space
from solkit.core.space import Params
from solkit.errors import InputError
from solkit.surrogate.gaussian_process import (
    Hyperparameters,
    Inputs,
    Matern,
    PoolProcess,
    fit_hyperparameters,
)
from solkit.tuner.search.candidates import Candidates
from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.priors import Prior, PriorFeatures, TargetTransform

_REFIT = 0.1  # by which share what was told grows between fits
_FIT_FROM = 4  # measurements
_CENTRES = 5  # fastest points around which others are considered
_MISLED = 3  # failures without a time after which the prior is not followed
_SEEN = 0.5  # measurements' worth of doubt about chances of failing
_YOUNG = 16.0  # measurements from which a model errs twice as much as it believes
_CERTAIN = 1 - 1e-12


@dataclass
class SearchRows:
    """Points that were asked for or told, in this order.

    Attributes:
        places: of each.
        log2_ms: NaN for what is pending, and for failures.
        failed: whether it failed.
        log_cost: logarithm of the seconds that it cost; NaN if unknown.
    """

    places: list[Places] = field(default_factory=list)
    log2_ms: list[float] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    log_cost: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def add(self, places: Places) -> None:
        """Add a pending point."""
        self.places.append(places)
        self.log2_ms.append(math.nan)
        self.failed.append(False)
        self.log_cost.append(math.nan)

    @property
    def times(self) -> Array:
        """`log2_ms` as an array."""
        return np.array(self.log2_ms, float)

    @property
    def best(self) -> int | None:
        """The row of the shortest time."""
        times = self.times
        return int(np.nanargmin(times)) if np.isfinite(times).any() else None


class PoolModel:
    """A Gaussian process at a pool of candidates.

    The pool and the hyperparameters change together, whenever what was told has grown by a tenth.
    In between each new row costs little.

    Args:
        encoding: of the space.
        prior: what is known before measuring.
        candidates: points that were not taken.
        rows: what was asked for and told; the caller adds to it.
        considered: size of the pool.
        slow: see `TargetTransform`.
    """

    def __init__(
        self,
        encoding: Encoding,
        prior: PriorFeatures,
        candidates: Candidates,
        rows: SearchRows,
        considered: int,
        slow: float,
    ) -> None:
        self.prior = prior
        self._encoding, self._candidates, self._rows = encoding, candidates, rows
        self._most, self._slow = considered, slow
        self._hyper = Hyperparameters.default(prior.scales, prior.terms)
        self._fit_due = _FIT_FROM if prior.scale is not None else 2 * _FIT_FROM
        self._inputs, self._expected_given = prior.inputs(self._taken_places())
        self._process: PoolProcess | None = None
        self.places: Places = self._taken_places()
        self.free: Array = np.zeros(0, bool)
        self._keys: Array = np.zeros(0, np.uint64)
        self._expected: Array = np.zeros(0)
        self._prior_fails: Array = np.zeros(0)

    # ------------------------------------------------------------------------------------ changes

    def added(self) -> None:
        """Take up another row of Rows."""
        place = self._rows.places[-1][None]
        inputs, expected = self.prior.inputs(place)
        self._inputs = self._inputs + inputs
        self._expected_given = np.append(self._expected_given, expected)
        if self._process is not None:
            self._process.add(inputs)
            self.free &= self._keys != self._encoding.keys(place)[0]

    def widen_around_best(self) -> None:
        """Take up a new best time of Rows: its neighbourhood joins the pool."""
        if self._process is None or self._candidates.remaining <= self.free.sum():
            return
        best = self._rows.best
        centre = self._rows.places[-1 if best is None else best]
        near = self._candidates.around(centre[None], self._most // 8)
        near = near[~np.isin(self._encoding.keys(near), self._keys)]
        if len(near):
            self._process.widen(self._join_pool(near))

    def refresh_pool(self) -> None:
        """Fit if it is due, and make another pool if there is none that fits."""
        timed = int(np.isfinite(self._rows.times).sum())
        due = timed >= self._fit_due
        if not (due or self._process is None or not self.free.any()):
            return
        if due:
            self._fit_process()
            self._fit_due = timed + max(2, int(timed * _REFIT))
        self.places, self.free = self._taken_places()[:0], np.zeros(0, bool)
        self._keys, self._expected = np.zeros(0, np.uint64), np.zeros(0)
        self._prior_fails = np.zeros(0)
        pool = self._join_pool(self._pool_candidates())
        kernel = Matern(self._hyper, self.prior.by_scale)
        self._process = PoolProcess(kernel, self._inputs, pool)

    def _fit_process(self) -> None:
        times = self._rows.times
        run = np.isfinite(times)
        z = self.scale.targets(times) - self._expected_given
        self._hyper = fit_hyperparameters(
            self._inputs[run], z[run], self.prior.by_scale, self._hyper
        )

    def _join_pool(self, places: Places) -> Inputs:
        """Return points that join the pool."""
        inputs, expected = self.prior.inputs(places)
        self.places = np.vstack([self.places, places])
        self.free = np.concatenate([self.free, np.ones(len(places), bool)])
        self._keys = np.concatenate([self._keys, self._encoding.keys(places)])
        self._expected = np.concatenate([self._expected, expected])
        self._prior_fails = np.concatenate([self._prior_fails, self.prior.fails(places)])
        return inputs

    def _pool_candidates(self) -> Places:
        """Return all candidates, or else neighbourhoods of the fastest and a sample."""
        if self._candidates.remaining <= self._most:
            return self._candidates.spread(self._most)
        times = self._rows.times
        fastest = np.argsort(times)[: min(_CENTRES, int(np.isfinite(times).sum()))]
        near = self._candidates.around(self._taken_places()[fastest], self._most // 2)
        both = np.vstack([near, self._candidates.spread(self._most - len(near))])
        return both[np.sort(np.unique(self._encoding.keys(both), return_index=True)[1])]

    def _taken_places(self) -> Places:
        shape = len(self._rows), self._encoding.parameters
        return np.array(self._rows.places, np.int64).reshape(shape)

    # ------------------------------------------------------------------------------------ beliefs

    @property
    def scale(self) -> TargetTransform:
        """Scale of the targets: the prior's, shifted to the times told; or else the times'."""
        times = self._rows.times
        if self.prior.scale is None:
            return TargetTransform.of(times, self._slow)
        off = times - self.prior.log2_ms(self._taken_places())[0]
        shifts = off[np.isfinite(off)]
        return self.prior.scale.shifted(float(np.median(shifts)) if len(shifts) else 0.0)

    def targets(self) -> tuple[Array, Array]:
        """Return mean and sd of the targets at the pool.

        The sd includes σ²: it is what a point has of its own, rather than noise of the timing.
        """
        process = self._conditioned()
        mean = process.mean(self._residuals(process)) + self._expected
        return mean, np.sqrt(process.variance + self._hyper.noise)

    def at(self, places: Places) -> tuple[Array, Array]:
        """Return mean and sd of log2 ms at any points."""
        process = self._conditioned()
        inputs, expected = self.prior.inputs(places)
        mean, variance = process.at(inputs, self._residuals(process))
        return self.log2_ms(mean + expected, np.sqrt(variance + self._hyper.noise))

    def log2_ms(self, mean: Array, sd: Array) -> tuple[Array, Array]:
        """Convert targets to log2 ms."""
        scale = self.scale
        upper, lower = scale.log2_ms(mean + sd), scale.log2_ms(mean - sd)
        return scale.log2_ms(mean), (upper - lower) / 2

    def fails(self) -> Array:
        """Return the chance that each point of the pool fails: the prior's, or its neighbours'."""
        failed = np.array(self._rows.failed, float)
        if not failed.any():
            return self._prior_fails
        finished = np.isfinite(self._rows.times) | (failed > 0)
        near = self._conditioned().nearness * finished[:, None]
        seen = (failed @ near + _SEEN * failed.mean()) / (near.sum(0) + _SEEN)
        return np.asarray(np.maximum(self._prior_fails, seen))

    def chance_below(self, log2_ms: float) -> float:
        """Return the chance that a free point takes less than `log2_ms`.

        Points of the pool are taken as independent, and as many others as are free as like them:
        both make the chance larger. `_error_scale` widens the spreads.
        """
        if not self.free.any():
            return 0.0
        mean, sd = self.targets()
        edge = float(self.scale.targets(np.array([log2_ms]))[0])
        below = ndtr((edge - mean) / (sd * self._error_scale())) * (1 - self.fails())
        none = float(np.log1p(-np.minimum(below[self.free], _CERTAIN)).sum())
        unseen = max(self._candidates.most_remaining / int(self.free.sum()), 1.0)
        return -math.expm1(none * unseen)

    def _error_scale(self) -> float:
        """Return how many times as large errors are as the model believes, at least 1.

        Each measurement is foretold from the others. Few measurements say little of hyperparameters
        and of surprises; `_YOUNG` is calibrated on recorded spaces (bench/stops.py).
        """
        process, ran = self._conditioned(), np.isfinite(self._rows.times)
        errors = process.leave_one_out_errors(self._residuals(process))[ran]
        seen = max(math.sqrt(float(errors.mean())), 1.0)
        return seen * (1 + _YOUNG / len(errors))

    def cost(self) -> Array:
        """Return the expected cost of measuring each point of the pool, relative to the mean."""
        costs = np.array(self._rows.log_cost)
        measured = np.isfinite(costs)
        if measured.sum() < 2 or not (spread := float(np.nanstd(costs))):
            return np.ones(len(self.places))
        process = self._conditioned()
        centred = process.impute_missing((costs - np.nanmean(costs)) / spread)
        return np.asarray(np.exp(np.clip(process.mean(centred), -3, 3) * spread))

    def _residuals(self, process: PoolProcess) -> Array:
        """Return what the process learns from: targets without what the prior expects, by row.

        A failure counts as the slowest; what is pending, as what the others lead to expect.
        """
        targets = self.scale.targets(self._rows.times)
        targets = np.where(self._rows.failed, np.nanmax(targets), targets)
        return process.impute_missing(targets - self._expected_given)

    def _conditioned(self) -> PoolProcess:
        if self._process is None:
            self.refresh_pool()
        assert self._process is not None
        return self._process


@dataclass(frozen=True)
class SearchSettings:
    """One setting for all spaces.

    Attributes:
        starts: measurements of the initial design, which spreads over the space, at most: one more
            than parameters vary is enough. With a prior it is the first that the model without the
            prior may decide. Until then the points with the lowest forecast are measured, unless
            the prior has views: which of these to follow is to be found out.
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
        self._rows = SearchRows()
        self._at: dict[int, int] = {}  # by key, the row's number
        sample = self._candidates.spread(settings.considered)
        # telling values apart by equality takes many times to learn: the first model does without
        plain = Encoding(space, named=0)
        self._model = self._make_model(PriorFeatures(plain, prior, sample, settings.slow))
        self._believes = self._model.prior.scale is not None
        self._follows = self._believes and not self._model.prior.views
        nothing = PriorFeatures(self._encoding, None, sample, settings.slow)
        self._models = [self._model, self._make_model(nothing)]
        self._design_size = min(settings.starts, self._encoding.varying + 1)

    def _make_model(self, prior: PriorFeatures) -> PoolModel:
        settings = self._settings
        return PoolModel(
            self._encoding, prior, self._candidates, self._rows, settings.considered, settings.slow
        )

    # ----------------------------------------------------------------------------------- public

    def ask(self, number: int = 1) -> list[Params]:
        """Return what to measure next: no point twice, and fewer only if no more are left."""
        answers: list[Params] = []
        while len(answers) < number and (places := self._choose_next()) is not None:
            self._row_number(places)
            answers.append(self._encoding.point(places))
        return answers

    def expect(self, params: Params) -> None:
        """Say that a point is being measured, though it was not asked for: it counts as pending.

        Raises:
            ParamsError: the space has no such point.
        """
        self._row_number(self._encoding.places([params])[0])

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
        row = self._row_number(self._encoding.places([params])[0])
        self._rows.failed[row] = time_ms is None
        self._rows.log2_ms[row] = math.nan if time_ms is None else math.log2(time_ms)
        self._rows.log_cost[row] = math.log(cost_s) if cost_s and cost_s > 0 else math.nan
        if self._rows.best not in (before, None):
            for model in self._models:
                model.widen_around_best()

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
        model.refresh_pool()
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

    def chance_of_better(self, share: float = BETTER) -> float:
        """Return the chance that a point is left that takes less than the best by over `share`.

        The larger one of both models. NaN before anything was told that did not fail; 0 if no point
        is left.
        """
        if self.best is None:
            return math.nan
        below = math.log2(self.best[1]) + math.log2(1 - share)
        for model in self._models:
            model.refresh_pool()
        return max(model.chance_below(below) for model in self._models)

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

    def _choose_next(self) -> Places | None:
        while self._first:
            places = self._first.pop(0)
            if int(self._encoding.keys(places[None])[0]) not in self._at:
                return places
        starts = 1 if self._believes else self._design_size
        if self._rows.best is None or len(self._rows) < starts:
            return self._design_point()
        model = self._deciding_model()
        model.refresh_pool()
        if not model.free.any():
            return None
        gains = np.where(model.free, self._acquisition(model), -np.inf)
        return model.places[int(np.argmax(gains))]

    def _deciding_model(self) -> PoolModel:
        """Return the model that decides: in turns the second, as the first may be misled."""
        number = len(self._rows)
        since = self._settings.starts if self._believes else self._settings.flexible
        doubts = number > since and number % self._settings.doubts == 0
        return self._models[-1 if doubts else 0]

    def _acquisition(self, model: PoolModel) -> Array:
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

    def _design_point(self) -> Places | None:
        """Choose a point by the prior, or else the one farthest from those that were taken.

        A prior whose first points all fail is not followed until one has a time.
        """
        considered = self._candidates.spread(self._settings.considered)
        if not len(considered):
            return None
        if self._believes and sum(self._rows.failed) < _MISLED:
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

    def _row_number(self, places: Places) -> int:
        """Return the number of a point's row, made if there is none."""
        key = int(self._encoding.keys(places[None])[0])
        if key not in self._at:
            self._at[key] = len(self._rows)
            self._rows.add(places)
            self._candidates.take(places)
            for model in self._models:
                model.added()
        return self._at[key]
