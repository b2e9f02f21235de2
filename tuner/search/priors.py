"""Beliefs of a search before its first measurement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from solkit.core.space import Params
from solkit.core.values import Value
from solkit.errors import InputError
from solkit.tuner.search.encoding import Array
from solkit.tuner.search.target_transform import TargetTransform

__all__ = ["Prior", "Recordings"]

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
        slow: see `TargetTransform`.

    Raises:
        InputError: there is none, or one has no times.
    """

    def __init__(
        self, recordings: Sequence[Mapping[PointKey, float | None]], slow: float = 0.3
    ) -> None:
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
            self._scales.append(TargetTransform.of(times, slow))
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


PointKey = frozenset[tuple[str, type, Value]]


def point_key(params: Params) -> PointKey:
    """Return a point's identity: 1, 1.0 and True are three values."""
    return frozenset((name, type(value), value) for name, value in params.items())
