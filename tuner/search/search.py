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
from solkit.tuner.search.belief import Known
from solkit.tuner.search.candidates import Candidates
from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.priors import Prior
from solkit.tuner.search.process import Hyper, Posterior, fitted
from solkit.tuner.search.scale import Scale

__all__ = ["DEFAULTS", "Search", "SearchSettings"]


@dataclass(frozen=True)
class SearchSettings:
    """One setting for all spaces.

    Attributes:
        starts: measurements of the initial design, which spreads over the space.
        refit: share by which what was told grows between fits of the hyperparameters.
        considered: points among which an answer is chosen.
        slow: what is left of differences among the slower half of times, so that the model
            resolves the faster half.
    """

    starts: int = 8
    refit: float = 0.1
    considered: int = 5000
    slow: float = 0.3
    nugget: bool = True
    wstarts: int = 1
    wfit: int = 4
    greedy: int = 0
    stuck: int = 0
    kappa: float = 0.5
    failz: str = "worst"


DEFAULTS = SearchSettings()


@dataclass
class _Pool:
    """The points among which answers are chosen between two fits.

    Attributes:
        places: (points, parameters).
        keys: of the points.
        free: which may still be asked for.
        expected: targets that the prior expects.
        fails: chances of failing that the prior has.
        posterior: of the points that were asked for or told, at these.
    """

    places: Places
    keys: Array
    free: Array
    expected: Array
    fails: Array
    posterior: Posterior


_DESIGNED = 400  # points among which the farthest is found
_ROOT_2PI = math.sqrt(2 * math.pi)


@dataclass
class _Row:
    """A point that was asked for or told; pending until it failed or has a time."""

    places: Places
    log2_ms: float = math.nan
    log_cost: float = math.nan
    failed: bool = False


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
        self._space, self._settings = space, settings
        self._encoding = Encoding(space)
        self._candidates = Candidates(space, self._encoding, seed)
        self._chance = np.random.default_rng(seed)
        sample = self._candidates.spread(settings.considered)
        self._known = Known(self._encoding, prior, sample, settings.slow)
        self._first = [self._encoding.places([p])[0] for p in first if p in space]
        self._rows: list[_Row] = []  # asked or told, in this order
        self._at: dict[int, int] = {}  # by key, the row's number
        self._hyper = Hyper.default(self._known.scales, self._known.terms)
        self._fit_due = settings.starts if self._known.scale is None else settings.wfit
        self._pool: _Pool | None = None

    # ----------------------------------------------------------------------------------- public

    def ask(self, number: int = 1) -> list[Params]:
        """What to measure next: no point twice, and fewer only if no more are left."""
        answers: list[Params] = []
        while len(answers) < number and (places := self._next()) is not None:
            self._row(places)
            answers.append(self._encoding.point(places))
        return answers

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
        places = self._encoding.places([params])[0]
        before = np.nanmin(self._times(), initial=math.inf)
        row = self._row(places)
        row.failed = time_ms is None
        row.log2_ms = math.nan if time_ms is None else math.log2(time_ms)
        row.log_cost = math.log(cost_s) if cost_s and cost_s > 0 else math.nan
        if row.log2_ms < before:
            self._widen(places)

    @property
    def best(self) -> tuple[Params, float] | None:
        """The fastest point told, and its time in ms; ``None`` before that."""
        times = self._times()
        if not np.isfinite(times).any():
            return None
        at = int(np.nanargmin(times))
        return self._encoding.point(self._rows[at].places), 2.0 ** float(times[at])

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
        pool = self._believed()
        if not pool.free.any():
            return 0.0
        mean, sd = self._log2_ms(*self._targets(pool))
        best = math.log2(self.best[1])
        # the mean of max(0, 1 - 2^(y - best)) for a normal y: a lognormal's partial expectation
        step = (best - mean) / sd
        rate = sd * math.log(2)
        later = 2.0 ** (mean - best) * np.exp(rate**2 / 2) * ndtr(step - rate)
        gain = (ndtr(step) - later) * (1 - self._fails(pool))
        return float(np.clip(gain[pool.free].max(), 0.0, 1.0))

    def forecast(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Mean and standard deviation of log2(time / ms) of points, each (points,).

        NaN before anything was told, where there is no prior.

        Raises:
            ParamsError: the space has no such point.
        """
        places = self._encoding.places(points)
        if not len(places) or not np.isfinite(self._times()).any():
            return self._known.log2_ms(places)
        inputs, expected = self._known.inputs(places)
        pool = self._believed()
        mean, sd = pool.posterior.at(inputs, self._residuals(pool))
        return self._log2_ms(mean + expected, sd)

    # ---------------------------------------------------------------------------------- choosing

    def _next(self) -> Places | None:
        while self._first:
            places = self._first.pop(0)
            if int(self._encoding.keys(places[None])[0]) not in self._at:
                return places
        starts = self._settings.starts if self._known.scale is None else self._settings.wstarts
        if not np.isfinite(self._times()).any() or len(self._rows) < starts:
            return self._designed()
        pool = self._believed()
        if not pool.free.any():
            self._pool = None  # the pool was a sample: another may have points
            pool = self._believed()
        if not pool.free.any():
            return None
        return pool.places[int(np.argmax(np.where(pool.free, self._acquisition(pool), -1.0)))]

    def _designed(self) -> Places | None:
        """By the prior, or else the point farthest from those that were taken."""
        considered = self._candidates.spread(self._settings.considered)
        if not len(considered):
            return None
        if self._known.scale is not None:
            mean, _ = self._known.log2_ms(considered)
            return considered[int(np.nanargmin(np.nan_to_num(mean, nan=math.inf)))]
        considered = self._chance.permutation(considered)[:_DESIGNED]
        if not self._rows:
            return considered[0]
        ours = self._encoding.features(considered)
        theirs = self._encoding.features(self._taken())
        apart = ((ours[:, None] - theirs[None]) ** 2).sum(2).min(1)
        return considered[int(np.argmax(apart))]

    def _acquisition(self, pool: _Pool) -> Array:
        """Expected improvement of the target, times the chance to run, per cost."""
        mean, sd = self._targets(pool)
        st = self._settings
        if st.nugget:
            sd = np.sqrt(sd**2 + pool.posterior.hyper.noise)
        if st.greedy and self._stuck() >= st.stuck and len(self._rows) % st.greedy == 0:
            return -(mean - st.kappa * sd) + 1e3
        best = float(np.nanmin(self._scale().targets(self._times())))
        step = (best - mean) / sd
        gain = sd * (step * ndtr(step) + np.exp(-step * step / 2) / _ROOT_2PI)
        return gain * (1 - self._fails(pool)) / self._cost(pool)

    def _stuck(self) -> int:
        times = self._times()
        return len(times) - 1 - int(np.nanargmin(times))

    def _cost(self, pool: _Pool) -> Array:
        """What measuring each is expected to cost, relative to the mean."""
        costs = np.array([row.log_cost for row in self._rows])
        known = np.isfinite(costs)
        if known.sum() < 2 or not (spread := float(np.nanstd(costs))):
            return np.ones(len(pool.places))
        centred = pool.posterior.believed((costs - np.nanmean(costs)) / spread)
        return np.exp(np.clip(pool.posterior.mean(centred), -3, 3) * spread)

    def _fails(self, pool: _Pool) -> Array:
        """The chance that each fails: the prior's, or that of its neighbours."""
        failed = np.array([row.failed for row in self._rows], float)
        if not failed.any():
            return pool.fails
        told = np.array([row.failed or math.isfinite(row.log2_ms) for row in self._rows])
        near = pool.posterior.nearness(len(failed)) ** 2 * told[:, None]
        return np.maximum(pool.fails, (failed @ near + 0.5 * failed.mean()) / (near.sum(0) + 0.5))

    # --------------------------------------------------------------------------------- believing

    def _times(self) -> Array:
        """log2 ms of the rows, NaN for failures and what is pending."""
        return np.array([row.log2_ms for row in self._rows])

    def _taken(self) -> Places:
        return np.array([row.places for row in self._rows])

    def _row(self, places: Places) -> _Row:
        """The row of a point, made if there is none."""
        key = int(self._encoding.keys(places[None])[0])
        if key in self._at:
            return self._rows[self._at[key]]
        self._at[key] = len(self._rows)
        self._rows.append(_Row(places))
        self._candidates.take(places)
        if self._pool is not None:
            self._pool.posterior.add(self._known.inputs(places[None])[0])
            self._pool.free &= self._pool.keys != np.uint64(key)
        return self._rows[-1]

    def _scale(self) -> Scale:
        """Of the targets: the prior's, shifted to the times told; or else that of the times."""
        times = self._times()
        if self._known.scale is None:
            return Scale.of(times, self._settings.slow)
        off = times - self._known.log2_ms(self._taken())[0]
        known = off[np.isfinite(off)]
        return self._known.scale.shifted(float(np.median(known)) if len(known) else 0.0)

    def _residuals(self, pool: _Pool) -> Array:
        """What the process learns from: targets without what the prior expects, for each row."""
        targets = self._scale().targets(self._times())
        failed = np.array([row.failed for row in self._rows])
        if self._settings.failz == "worst":
            targets = np.where(failed, np.nanmax(targets), targets)
        return pool.posterior.believed(targets - self._known.inputs(self._taken())[1])

    def _targets(self, pool: _Pool) -> tuple[Array, Array]:
        """Mean and sd of the targets at the pool."""
        posterior = pool.posterior
        return posterior.mean(self._residuals(pool)) + pool.expected, posterior.sd

    def _log2_ms(self, mean: Array, sd: Array) -> tuple[Array, Array]:
        """Of targets, as log2 ms."""
        scale = self._scale()
        return (
            scale.log2_ms(mean),
            (scale.log2_ms(mean + sd) - scale.log2_ms(mean - sd)) / 2,
        )

    def _believed(self) -> _Pool:
        """The belief from what was told; pending points count as told what is expected of them."""
        told = int(np.isfinite(self._times()).sum())
        if self._pool is None or told >= self._fit_due:
            self._pool = self._pooled(told)
        return self._pool

    def _pooled(self, told: int) -> _Pool:
        """Another pool, after a fit if one is due."""
        given, expected = self._known.inputs(self._taken())
        times = self._times()
        known = np.isfinite(times)
        if told >= self._fit_due:
            z = self._scale().targets(times) - expected
            self._hyper = fitted(given[known], z[known], self._known.by_scale, self._hyper)
            self._fit_due = told + max(2, int(told * self._settings.refit))
        places = self._considered()
        inputs, before = self._known.inputs(places)
        keys = self._encoding.keys(places)
        posterior = Posterior(self._hyper, self._known.by_scale, given, inputs)
        free = np.ones(len(places), bool)
        return _Pool(places, keys, free, before, self._known.fails(places), posterior)

    def _considered(self) -> Places:
        """Candidates for the next answers, (points, parameters)."""
        most = self._settings.considered
        if self._candidates.left <= most:
            return self._candidates.spread(most)
        times = self._times()
        fastest = np.argsort(times)[: min(5, int(np.isfinite(times).sum()))]
        near = self._candidates.around(self._taken()[fastest], most // 2)
        both = np.vstack([near, self._candidates.spread(most - len(near))])
        return both[np.sort(np.unique(self._encoding.keys(both), return_index=True)[1])]

    def _widen(self, centre: Places) -> None:
        """Add the neighbourhood of a new best point to the pool."""
        pool = self._pool
        if pool is None or self._candidates.left <= int(pool.free.sum()):
            return
        near = self._candidates.around(centre[None], self._settings.considered // 8)
        near = near[~np.isin(self._encoding.keys(near), pool.keys)]
        if not len(near):
            return
        inputs, before = self._known.inputs(near)
        pool.posterior.widen(inputs)
        pool.places = np.vstack([pool.places, near])
        pool.keys = np.concatenate([pool.keys, self._encoding.keys(near)])
        pool.free = np.concatenate([pool.free, np.ones(len(near), bool)])
        pool.expected = np.concatenate([pool.expected, before])
        pool.fails = np.concatenate([pool.fails, self._known.fails(near)])
