"""What a search believes before its first measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from solkit.core.space import Params
from solkit.tuner.search.encoding import Array

__all__ = ["Prior"]


class Prior(Protocol):
    """A belief about a space's points, such as a surrogate's forecasts."""

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Mean and standard deviation of log2(time / ms), each (points,); NaN where unknown."""
        ...

    def fails(self, points: Sequence[Params]) -> Array:
        """The chance that each fails, (points,)."""
        ...
