"""Ask what to measure next in a space, and tell what it took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from solkit.core import Space
from solkit.core.space import Params
from solkit.errors import InputError
from solkit.tuner.search.candidates import Candidates
from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.priors import Prior
from solkit.tuner.search.process import Hyper, Process, fitted

__all__ = ["DEFAULTS", "Search", "SearchSettings"]


@dataclass(frozen=True)
class SearchSettings:
    """One setting for all spaces.

    Attributes:
        starts: measurements of the initial design, which spreads over the space.
        refit: measurements between fits of the hyperparameters.
        considered: points among which an answer is chosen.
        slow: what is left of differences among the slower half of times, so that the model
            resolves the faster half.
    """

    starts: int = 8
    refit: int = 5
    considered: int = 2000
    slow: float = 0.3


DEFAULTS = SearchSettings()


@dataclass(frozen=True)
class _Scale:
    """Turns log2 ms into targets: the slower half drawn in, then standardised.

    Attributes:
        middle: the median of log2 ms.
        slow: what is left of differences above it.
        mean, sd: of what results.
    """

    middle: float
    slow: float
    mean: float = 0.0
    sd: float = 1.0

    def targets(self, log2_ms: Array) -> Array:
        above = np.maximum(log2_ms - self.middle, 0.0)
        return (log2_ms - (1 - self.slow) * above - self.mean) / self.sd

    def log2_ms(self, targets: Array) -> Array:
        warped = targets * self.sd + self.mean
        above = np.maximum(warped - self.middle, 0.0)
        return warped + (1 / self.slow - 1) * above


@dataclass(frozen=True)
class _Belief:
    """A process given what was told and what is pending."""

    process: Process
    weights: Array
    scale: _Scale
    best: float  # the lowest target told
    shift: float  # log2 ms that the prior is off by


_DESIGNED = 400  # points among which the farthest is found
_NO_POINTS: tuple[Array, Array] = (np.zeros(0), np.zeros(0))


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
        self._space, self._prior, self._settings = space, prior, settings
        self._encoding = Encoding(space)
        self._candidates = Candidates(space, self._encoding, seed)
        self._first = [self._encoding.places([p])[0] for p in first if p in space]
        self._chance = np.random.default_rng(seed)
        self._pending: list[Places] = []
        self._places: list[Places] = []
        self._log2_ms: list[float] = []  # of those told; NaN for failures
        self._log_cost: list[float] = []  # of those told, of seconds; NaN if unknown
        self._hyper = Hyper.default(int(max(self._encoding.scales, default=-1)) + 1)
        self._fitted_at = 0
        self._belief: _Belief | None = None

    # ----------------------------------------------------------------------------------- public

    def ask(self, number: int = 1) -> list[Params]:
        """What to measure next: no point twice, and fewer only if no more are left."""
        answers: list[Params] = []
        while len(answers) < number and (places := self._next()) is not None:
            self._pending.append(places)
            self._candidates.take(places)
            self._belief = None
            answers.append(self._encoding.point(places))
        return answers

    def tell(self, params: Params, time_ms: float | None, cost_s: float | None = None) -> None:
        """Say what a point took, whether it was asked for or not.

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
        places = self._encoding.places([params])[0]
        self._pending = [each for each in self._pending if not np.array_equal(each, places)]
        self._candidates.take(places)
        self._log_cost.append(math.log(cost_s) if cost_s and cost_s > 0 else math.nan)
        self._places.append(places)
        self._log2_ms.append(math.nan if time_ms is None else math.log2(time_ms))
        self._belief = None

    @property
    def best(self) -> tuple[Params, float] | None:
        """The fastest point told, and its time in ms; ``None`` before that."""
        times = np.array(self._log2_ms)
        if not np.isfinite(times).any():
            return None
        at = int(np.nanargmin(times))
        return self._encoding.point(self._places[at]), 2.0 ** float(times[at])

    @property
    def exhausted(self) -> bool:
        """Whether every legal point was asked for or told."""
        return self._candidates.exhausted

    def expected_gain(self) -> float:
        """The share of the best time that the next measurement is expected to save, 0 to 1.

        NaN before anything was told that did not fail; 0 if no point is left.
        """
        if self.best is None:
            return math.nan
        considered = self._considered()
        if not len(considered):
            return 0.0
        belief = self._believed()
        mean, sd = self._forecast(considered)
        best = math.log2(self.best[1])
        # the mean of max(0, 1 - 2^(y - best)) for a normal y: a lognormal's partial expectation
        step = (best - mean) / sd
        rate = sd * math.log(2)
        below = norm.cdf(step) - 2.0 ** (mean - best) * np.exp(rate**2 / 2) * norm.cdf(step - rate)
        able = 1 - self._fails(considered, belief)
        return float(np.clip((below * able).max(), 0.0, 1.0))

    def forecast(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Mean and standard deviation of log2(time / ms) of points, each (points,).

        NaN before anything was told, where there is no prior.

        Raises:
            ParamsError: the space has no such point.
        """
        if not points:
            return _NO_POINTS
        return self._forecast(self._encoding.places(points))

    # ---------------------------------------------------------------------------------- choosing

    def _next(self) -> Places | None:
        while self._first:
            places = self._first.pop(0)
            if not self._candidates.is_taken(places):
                return places
        considered = self._considered()
        if not len(considered):
            return None
        if not np.isfinite(self._log2_ms).any() or self._spreads():
            return self._designed(considered)
        return considered[int(np.argmax(self._acquisition(considered)))]

    def _spreads(self) -> bool:
        """Whether the initial design goes on."""
        return len(self._places) + len(self._pending) < self._settings.starts

    def _considered(self) -> Places:
        """Candidates for the next answer, (points, parameters)."""
        most = self._settings.considered
        times = np.array(self._log2_ms)
        if not np.isfinite(times).any():
            return self._candidates.spread(most)
        fastest = np.argsort(times)[: min(5, int(np.isfinite(times).sum()))]
        near = self._candidates.around(np.array(self._places)[fastest], most // 2)
        both = np.vstack([near, self._candidates.spread(most - len(near))])
        _, kept = np.unique(self._encoding.keys(both), return_index=True)
        return both[np.sort(kept)]

    def _designed(self, considered: Places) -> Places:
        """By the prior, or else the point farthest from those that were taken."""
        if self._prior is not None:
            mean, _ = self._believed_before(considered)
            if np.isfinite(mean).any():
                return considered[int(np.nanargmin(mean))]
        taken = [*self._places, *self._pending]
        considered = self._chance.permutation(considered)[:_DESIGNED]
        if not taken:
            return considered[0]
        ours = self._encoding.features(considered)
        theirs = self._encoding.features(np.array(taken))
        apart = ((ours[:, None] - theirs[None]) ** 2).sum(2).min(1)
        return considered[int(np.argmax(apart))]

    def _acquisition(self, considered: Places) -> Array:
        """Expected improvement of the target, times the chance to run, per cost."""
        belief = self._believed()
        mean, sd = self._targets(considered, belief)
        step = (belief.best - mean) / sd
        gain = sd * (step * norm.cdf(step) + norm.pdf(step))
        return gain * (1 - self._fails(considered, belief)) / self._cost(considered, belief)

    def _cost(self, considered: Places, belief: _Belief) -> Array:
        """What measuring each is expected to cost, relative to the mean."""
        costs = np.array(self._log_cost)
        known = np.isfinite(costs)
        if known.sum() < 2 or not (spread := float(np.nanstd(costs))):
            return np.ones(len(considered))
        centred = np.zeros(len(belief.weights))
        centred[: len(costs)][known] = (costs[known] - np.nanmean(costs)) / spread
        cross, _ = belief.process.against(self._encoding.features(considered))
        return np.exp(cross @ belief.process.weights(centred) * spread)

    # --------------------------------------------------------------------------------- believing

    def _believed_before(self, places: Places) -> tuple[Array, Array]:
        """The prior's mean and sd of log2 ms; NaN without one."""
        unknown = np.full(len(places), math.nan)
        if self._prior is None:
            return unknown, unknown
        return self._prior.log2_ms([self._encoding.point(each) for each in places])

    def _fails(self, considered: Places, belief: _Belief) -> Array:
        """The chance that each fails: of its neighbours, weighed by the process' covariance."""
        failed = np.isnan(self._log2_ms).astype(float)
        known: Array = np.zeros(len(considered))
        if self._prior is not None:
            known = self._prior.fails([self._encoding.point(each) for each in considered])
        if not failed.any():
            return known
        cross, _ = belief.process.against(self._encoding.features(considered))
        near = np.maximum(cross[:, : len(failed)] / belief.process.hyper.signal, 0.0) ** 2
        rate = failed.mean()
        return np.maximum(known, (near @ failed + 0.5 * rate) / (near.sum(1) + 0.5))

    def _forecast(self, places: Places) -> tuple[Array, Array]:
        if not np.isfinite(self._log2_ms).any():
            return self._believed_before(places)
        belief = self._believed()
        mean, sd = self._targets(places, belief)
        centre = belief.scale.log2_ms(mean)
        upper, lower = belief.scale.log2_ms(mean + sd), belief.scale.log2_ms(mean - sd)
        return centre, (upper - lower) / 2

    def _targets(self, places: Places, belief: _Belief) -> tuple[Array, Array]:
        """Mean and sd of the targets at points."""
        cross, sd = belief.process.against(self._encoding.features(places))
        return cross @ belief.weights + self._offset(places, belief.scale, belief.shift), sd

    def _offset(self, places: Places, scale: _Scale, shift: float) -> Array:
        """The prior as targets, 0 where it knows nothing."""
        if self._prior is None:
            return np.zeros(len(places))
        mean, _ = self._believed_before(places)
        return np.nan_to_num(scale.targets(mean + shift))

    def _believed(self) -> _Belief:
        """The belief from what was told; pending points count as told what is expected of them."""
        if self._belief is None:
            self._belief = self._learned()
        return self._belief

    def _learned(self) -> _Belief:
        times = np.array(self._log2_ms)
        scale = self._scaled(times)
        filled = np.where(np.isnan(times), np.nanmax(times), times)
        told = np.array(self._places)
        shift = 0.0
        if self._prior is not None:
            off = times - self._believed_before(told)[0]
            shift = float(np.nanmedian(off)) if np.isfinite(off).any() else 0.0
        targets = scale.targets(filled) - self._offset(told, scale, shift)
        x = self._encoding.features(told)
        if len(x) >= self._settings.starts and len(x) - self._fitted_at >= self._settings.refit:
            self._hyper = fitted(x, targets, self._encoding.scales, self._hyper)
            self._fitted_at = len(x)
        process = Process(x, self._encoding.scales, self._hyper)
        weights = process.weights(targets)
        if self._pending:
            pending = self._encoding.features(np.array(self._pending))
            expected = process.against(pending)[0] @ weights
            process = Process(np.vstack([x, pending]), self._encoding.scales, self._hyper)
            weights = process.weights(np.concatenate([targets, expected]))
        best = float(np.nanmin(scale.targets(times)))
        return _Belief(process, weights, scale, best, shift)

    def _scaled(self, times: Array) -> _Scale:
        scale = _Scale(float(np.nanmedian(times)), self._settings.slow)
        targets = scale.targets(times[np.isfinite(times)])
        return replace(scale, mean=float(targets.mean()), sd=float(targets.std()) or 1.0)
