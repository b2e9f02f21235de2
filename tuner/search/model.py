"""A belief about the points that a search may ask for, learned from what was told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from solkit.surrogate.gaussian_process import (
    Hyperparameters,
    Inputs,
    Matern,
    PoolProcess,
    fit_hyperparameters,
)
from solkit.tuner.search.candidates import Candidates
from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.prior_features import PriorFeatures
from solkit.tuner.search.target_transform import TargetTransform

__all__ = ["Model", "Rows"]

_REFIT = 0.1  # by which share what was told grows between fits
_FIT_FROM = 4  # measurements
_CENTRES = 5  # fastest points around which others are considered
_SEEN = 0.5  # measurements' worth of doubt about chances of failing


@dataclass
class Rows:
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


class Model:
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
        rows: Rows,
        considered: int,
        slow: float,
    ) -> None:
        self.prior = prior
        self._encoding, self._candidates, self._rows = encoding, candidates, rows
        self._most, self._slow = considered, slow
        self._hyper = Hyperparameters.default(prior.scales, prior.terms)
        self._fit_due = _FIT_FROM if prior.scale is not None else 2 * _FIT_FROM
        self._inputs, self._expected_given = prior.inputs(self._taken())
        self._process: PoolProcess | None = None
        self.places: Places = self._taken()
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

    def improved(self) -> None:
        """Take up a new best time of Rows: its neighbourhood joins the pool."""
        if self._process is None or self._candidates.remaining <= self.free.sum():
            return
        best = self._rows.best
        centre = self._rows.places[-1 if best is None else best]
        near = self._candidates.around(centre[None], self._most // 8)
        near = near[~np.isin(self._encoding.keys(near), self._keys)]
        if len(near):
            self._process.widen(self._joined(near))

    def renewed(self) -> None:
        """Fit if it is due, and make another pool if there is none that fits."""
        timed = int(np.isfinite(self._rows.times).sum())
        due = timed >= self._fit_due
        if not (due or self._process is None or not self.free.any()):
            return
        if due:
            self._fit()
            self._fit_due = timed + max(2, int(timed * _REFIT))
        self.places, self.free = self._taken()[:0], np.zeros(0, bool)
        self._keys, self._expected = np.zeros(0, np.uint64), np.zeros(0)
        self._prior_fails = np.zeros(0)
        pool = self._joined(self._considered())
        kernel = Matern(self._hyper, self.prior.by_scale)
        self._process = PoolProcess(kernel, self._inputs, pool)

    def _fit(self) -> None:
        times = self._rows.times
        run = np.isfinite(times)
        z = self.scale.targets(times) - self._expected_given
        self._hyper = fit_hyperparameters(
            self._inputs[run], z[run], self.prior.by_scale, self._hyper
        )

    def _joined(self, places: Places) -> Inputs:
        """Return points that join the pool."""
        inputs, expected = self.prior.inputs(places)
        self.places = np.vstack([self.places, places])
        self.free = np.concatenate([self.free, np.ones(len(places), bool)])
        self._keys = np.concatenate([self._keys, self._encoding.keys(places)])
        self._expected = np.concatenate([self._expected, expected])
        self._prior_fails = np.concatenate([self._prior_fails, self.prior.fails(places)])
        return inputs

    def _considered(self) -> Places:
        """Return all candidates, or else neighbourhoods of the fastest and a sample."""
        if self._candidates.remaining <= self._most:
            return self._candidates.spread(self._most)
        times = self._rows.times
        fastest = np.argsort(times)[: min(_CENTRES, int(np.isfinite(times).sum()))]
        near = self._candidates.around(self._taken()[fastest], self._most // 2)
        both = np.vstack([near, self._candidates.spread(self._most - len(near))])
        return both[np.sort(np.unique(self._encoding.keys(both), return_index=True)[1])]

    def _taken(self) -> Places:
        shape = len(self._rows), self._encoding.parameters
        return np.array(self._rows.places, np.int64).reshape(shape)

    # ------------------------------------------------------------------------------------ beliefs

    @property
    def scale(self) -> TargetTransform:
        """Scale of the targets: the prior's, shifted to the times told; or else the times'."""
        times = self._rows.times
        if self.prior.scale is None:
            return TargetTransform.of(times, self._slow)
        off = times - self.prior.log2_ms(self._taken())[0]
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
            self.renewed()
        assert self._process is not None
        return self._process
