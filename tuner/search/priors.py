"""Priors: what a search believes before it measures, and as features of its model.

A recording on other GPUs is a prior; `PriorFeatures` are what the process learns from one. Targets
of the process are warped logarithms: differences among the slower half of times count less, so
that the process resolves the faster half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from solkit.core import Params
from solkit.core.space import PointKey, point_key
from solkit.errors import InputError
from solkit.surrogate.gaussian_process import Inputs
from solkit.tuner.search.encoding import Array, Encoding, Places


@dataclass(frozen=True)
class TargetTransform:
    """Turns log2 ms into targets: the slower half drawn in, then standardised.

    Attributes:
        middle: log2 ms from which on times are slow.
        slow: what is left of differences above it.
        mean, sd: of what results.
    """

    middle: float
    slow: float
    mean: float = 0.0
    sd: float = 1.0

    @classmethod
    def of(cls, log2_ms: Array, slow: float) -> TargetTransform:
        """Return the scale that standardises times, with their median as the middle."""
        ran = log2_ms[np.isfinite(log2_ms)]
        rough = cls(float(np.median(ran)), slow)
        targets = rough.targets(ran)
        return cls(rough.middle, slow, float(targets.mean()), float(targets.std()) or 1.0)

    def shifted(self, log2: float) -> TargetTransform:
        """Return the transform for times that are all longer by a factor."""
        return TargetTransform(self.middle + log2, self.slow, self.mean + log2, self.sd)

    def targets(self, log2_ms: Array) -> Array:
        """Return the targets of logarithms of times."""
        above = np.maximum(log2_ms - self.middle, 0.0)
        return (log2_ms - (1 - self.slow) * above - self.mean) / self.sd

    def log2_ms(self, targets: Array) -> Array:
        """Return the logarithms of times with these targets."""
        warped = targets * self.sd + self.mean
        above = np.maximum(warped - self.middle, 0.0)
        return warped + (1 / self.slow - 1) * above


_SLOW = 0.3  # what is left of differences among the slower half of recordings
_DOUBT = 1.0  # measurements' worth of doubt that other GPUs' failures tell of this one


class Prior(Protocol):
    """A belief about a space's points, such as a surrogate's forecasts.

    It may also have ``views(points)``: the beliefs of which it is made, (points, views). A search
    learns how much each counts.
    """

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and sd of log2(time / ms) of points, each (points,); NaN: unknown.

        Its level need not be right: a search learns by which factor times differ.
        """
        ...

    def fails(self, points: Sequence[Params]) -> Array:
        """Return the chance that each fails, (points,)."""
        ...


class Recordings:
    """Recordings of the same space on other GPUs.

    A time is believed to be the mean over recordings, each brought to one scale first: differences
    among its slower half count less (see `TargetTransform`), and all have the same spread.

    Args:
        recordings: of each, the time in ms of its points; ``None`` for failures.

    Raises:
        InputError: there is none, or one has no times.
    """

    def __init__(self, recordings: Sequence[Mapping[PointKey, float | None]]) -> None:
        if not recordings:
            raise InputError("there are no recordings: give at least one")
        self._times = [
            {key: math.nan if time is None else math.log2(time) for key, time in recording.items()}
            for recording in recordings
        ]
        self._scales = []
        for place, log2_times in enumerate(self._times):
            times = np.array(list(log2_times.values()))
            if not np.isfinite(times).any():
                raise InputError(f"recording {place + 1} has no configuration that ran")
            self._scales.append(TargetTransform.of(times, _SLOW))
        failed = [math.isnan(time) for recording in self._times for time in recording.values()]
        self._failing = sum(failed) / len(failed)

    def views(self, points: Sequence[Params]) -> Array:
        """Return log2 ms on each GPU, (points, recordings); NaN where failed or not recorded."""
        keys = [point_key(point) for point in points]
        views = [[recording.get(key, math.nan) for recording in self._times] for key in keys]
        return np.array(views, float).reshape(len(points), len(self._times))

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and sd over recordings; the sd of a single one is not known."""
        views = self.views(points)
        if not len(views):
            return np.zeros(0), np.zeros(0)
        scaled = np.stack([s.targets(v) for s, v in zip(self._scales, views.T)], axis=1)
        ran = np.isfinite(scaled)
        count = ran.sum(1)
        total = np.where(ran, scaled, 0.0).sum(1)
        mean = np.where(count > 0, total / np.maximum(count, 1), math.nan)
        off = np.where(ran, scaled - mean[:, None], 0.0)
        variance = (off**2).sum(1) / np.maximum(count - 1, 1)
        sd = np.where(count > 1, np.sqrt(variance), math.nan)
        common = TargetTransform(
            *(float(np.mean([s.middle for s in self._scales])), self._scales[0].slow),
            float(np.mean([s.mean for s in self._scales])),
            float(np.mean([s.sd for s in self._scales])),
        )
        spread = (common.log2_ms(mean + sd) - common.log2_ms(mean - sd)) / 2
        return common.log2_ms(mean), spread

    def fails(self, points: Sequence[Params]) -> Array:
        """Return shares of recordings in which each failed, drawn to the share of all failures."""
        keys = [point_key(point) for point in points]
        tried = np.array(
            [sum(key in recording for recording in self._times) for key in keys], float
        )
        failed = np.array(
            [sum(math.isnan(recording.get(key, 0.0)) for recording in self._times) for key in keys],
            float,
        )
        return (failed + _DOUBT * self._failing) / (tried + _DOUBT)


class PriorFeatures:
    """Features of points before measuring, and the prior's belief.

    Args:
        encoding: of the space.
        prior: of the search.
        sample: points that stand for the space, (points, parameters).
        slow: see `TargetTransform`.
    """

    def __init__(
        self, encoding: Encoding, prior: Prior | None, sample: Places, slow: float
    ) -> None:
        self.encoding, self._prior = encoding, prior
        self.by_scale = encoding.scales
        self.scale: TargetTransform | None = None
        self._scales: list[TargetTransform] = []  # of the views
        self._answers: dict[int, Array] = {}  # of the prior, by a point's key
        self._answered = 3  # numbers of each answer
        if prior is None or not len(sample):
            return
        self._answered += self._prior_views([encoding.point(sample[0])]).shape[1]
        believed = self._prior_beliefs(sample)
        if not np.isfinite(believed[:, 0]).any():
            return
        self.scale = TargetTransform.of(believed[:, 0], slow)
        views = believed[:, 3:]
        self._scales = [
            TargetTransform.of(view, slow) if np.isfinite(view).any() else TargetTransform(0.0, 1.0)
            for view in views.T
        ]
        self.by_scale = np.append(encoding.scales, max(encoding.scales, default=-1) + 1)

    @property
    def scales(self) -> int:
        """Number of length scales."""
        return int(max(self.by_scale, default=-1)) + 1

    @property
    def views(self) -> int:
        """Beliefs that the prior says it is made of; 0 if it says nothing."""
        return len(self._scales)

    @property
    def terms(self) -> int:
        """Number of linear columns."""
        return 2 + self.views if self.scale is not None else 0

    def log2_ms(self, places: Places) -> tuple[Array, Array]:
        """Return the prior's mean and sd of log2 ms; NaN without one."""
        believed = self._prior_beliefs(places)
        return believed[:, 0], believed[:, 1]

    def fails(self, places: Places) -> Array:
        """Return the chance that each fails, as the prior has it."""
        return np.nan_to_num(self._prior_beliefs(places)[:, 2])

    def inputs(self, places: Places) -> tuple[Inputs, Array]:
        """Return points as the process sees them, and the targets that the prior expects."""
        x = self.encoding.features(places)
        if self.scale is None:
            return Inputs(x, np.zeros((len(x), 0))), np.zeros(len(x))
        believed = self._prior_beliefs(places)
        expected = np.nan_to_num(self.scale.targets(believed[:, 0]))
        own = [
            np.where(np.isfinite(view), scale.targets(view) - expected, 0.0)
            for view, scale in zip(believed[:, 3:].T, self._scales)
        ]
        u = np.stack([np.ones(len(x)), expected, *own], axis=1)
        return Inputs(np.hstack([x, expected[:, None] / 4]), u), expected

    def _prior_beliefs(self, places: Places) -> Array:
        """Return the prior's mean, sd, chance of failing and views of points: (points, 3 + views).

        A point is asked about once: a prior may be slow.
        """
        if self._prior is None:
            return np.full((len(places), 3), math.nan)
        keys = [int(key) for key in self.encoding.keys(places)]
        missing = [at for at, key in enumerate(keys) if key not in self._answers]
        if missing:
            points = [self.encoding.point(places[at]) for at in missing]
            answers = np.column_stack(
                [*self._prior.log2_ms(points), self._prior.fails(points), self._prior_views(points)]
            )
            self._answers.update(zip((keys[at] for at in missing), answers))
        return np.array([self._answers[key] for key in keys]).reshape(len(keys), self._answered)

    def _prior_views(self, points: list[Params]) -> Array:
        """Return beliefs of which the prior is made, (points, views)."""
        views = getattr(self._prior, "views", None)
        if views is None:
            return np.zeros((len(points), 0))
        return np.asarray(views(points))
