"""What a search believes of the points it may ask for.

Targets are warped: differences among the slower half of times count less, so that the process
resolves the faster half. Where there is a prior, the process learns what the prior leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.priors import Prior
from solkit.tuner.search.process import Inputs

__all__ = ["Known", "Scale"]


@dataclass(frozen=True)
class Scale:
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
    def of(cls, log2_ms: Array, slow: float) -> Scale:
        """The scale that standardises times, with their median as the middle."""
        known = log2_ms[np.isfinite(log2_ms)]
        rough = cls(float(np.median(known)), slow)
        targets = rough.targets(known)
        return cls(rough.middle, slow, float(targets.mean()), float(targets.std()) or 1.0)

    def shifted(self, log2: float) -> Scale:
        """For times that are all longer by a factor."""
        return Scale(self.middle + log2, self.slow, self.mean + log2, self.sd)

    def targets(self, log2_ms: Array) -> Array:
        """Of logarithms of times."""
        above = np.maximum(log2_ms - self.middle, 0.0)
        return (log2_ms - (1 - self.slow) * above - self.mean) / self.sd

    def log2_ms(self, targets: Array) -> Array:
        """The logarithms of times with these targets."""
        warped = targets * self.sd + self.mean
        above = np.maximum(warped - self.middle, 0.0)
        return warped + (1 / self.slow - 1) * above


class Known:
    """What is known of points before measuring: their features, and the prior's belief.

    Args:
        encoding: of the space.
        prior: of the search.
        sample: points that stand for the space, (points, parameters).
        slow: see `Scale`.
    """

    def __init__(
        self, encoding: Encoding, prior: Prior | None, sample: Places, slow: float
    ) -> None:
        self._encoding, self._prior = encoding, prior
        self.by_scale = encoding.scales
        self.scale: Scale | None = None
        self._scales: list[Scale] = []
        if prior is None or not len(sample):
            return
        mean, _ = self.log2_ms(sample)
        if not np.isfinite(mean).any():
            return
        self.scale = Scale.of(mean, slow)
        views = self._views(sample)
        self._scales = [
            Scale.of(view, slow) if np.isfinite(view).any() else Scale(0.0, 1.0) for view in views.T
        ]
        self.by_scale = np.append(encoding.scales, max(encoding.scales, default=-1) + 1)

    @property
    def scales(self) -> int:
        """How many length scales there are."""
        return int(max(self.by_scale, default=-1)) + 1

    @property
    def terms(self) -> int:
        """How many linear columns there are."""
        return 2 + len(self._scales) if self.scale is not None else 0

    def log2_ms(self, places: Places) -> tuple[Array, Array]:
        """The prior's mean and sd of log2 ms; NaN without one."""
        if self._prior is None:
            unknown = np.full(len(places), math.nan)
            return unknown, unknown
        return self._prior.log2_ms([self._encoding.point(each) for each in places])

    def fails(self, places: Places) -> Array:
        """The chance that each fails, as the prior has it."""
        if self._prior is None:
            return np.zeros(len(places))
        return self._prior.fails([self._encoding.point(each) for each in places])

    def inputs(self, places: Places) -> tuple[Inputs, Array]:
        """Points as the process sees them, and the targets that the prior expects."""
        x = self._encoding.features(places)
        if self.scale is None:
            return Inputs(x, np.zeros((len(x), 0))), np.zeros(len(x))
        expected = np.nan_to_num(self.scale.targets(self.log2_ms(places)[0]))
        views = self._views(places)
        own = [
            np.where(np.isfinite(view), scale.targets(view) - expected, 0.0)
            for view, scale in zip(views.T, self._scales)
        ]
        u = np.stack([np.ones(len(x)), expected, *own], axis=1)
        return Inputs(np.hstack([x, expected[:, None] / 4]), u), expected

    def _views(self, places: Places) -> Array:
        """Beliefs of which the prior is made, (points, views)."""
        views = getattr(self._prior, "views", None)
        if views is None:
            return np.zeros((len(places), 0))
        return np.asarray(views([self._encoding.point(each) for each in places]))
