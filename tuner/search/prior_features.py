"""Beliefs of a search about the points that it may ask for.

Where there is a prior, the process learns what the prior leaves.
"""

from __future__ import annotations

import math

import numpy as np

from solkit.core import Params
from solkit.surrogate.gaussian_process import Inputs
from solkit.tuner.search.encoding import Array, Encoding, Places
from solkit.tuner.search.priors import Prior
from solkit.tuner.search.target_transform import TargetTransform

__all__ = ["PriorFeatures"]


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
        self._answered += self._views([encoding.point(sample[0])]).shape[1]
        believed = self._believed(sample)
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
        believed = self._believed(places)
        return believed[:, 0], believed[:, 1]

    def fails(self, places: Places) -> Array:
        """Return the chance that each fails, as the prior has it."""
        return np.nan_to_num(self._believed(places)[:, 2])

    def inputs(self, places: Places) -> tuple[Inputs, Array]:
        """Return points as the process sees them, and the targets that the prior expects."""
        x = self.encoding.features(places)
        if self.scale is None:
            return Inputs(x, np.zeros((len(x), 0))), np.zeros(len(x))
        believed = self._believed(places)
        expected = np.nan_to_num(self.scale.targets(believed[:, 0]))
        own = [
            np.where(np.isfinite(view), scale.targets(view) - expected, 0.0)
            for view, scale in zip(believed[:, 3:].T, self._scales)
        ]
        u = np.stack([np.ones(len(x)), expected, *own], axis=1)
        return Inputs(np.hstack([x, expected[:, None] / 4]), u), expected

    def _believed(self, places: Places) -> Array:
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
                [*self._prior.log2_ms(points), self._prior.fails(points), self._views(points)]
            )
            self._answers.update(zip((keys[at] for at in missing), answers))
        return np.array([self._answers[key] for key in keys]).reshape(len(keys), self._answered)

    def _views(self, points: list[Params]) -> Array:
        """Return beliefs of which the prior is made, (points, views)."""
        views = getattr(self._prior, "views", None)
        if views is None:
            return np.zeros((len(points), 0))
        return np.asarray(views(points))
