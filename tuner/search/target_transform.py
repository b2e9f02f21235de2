"""Times as targets of a process.

Targets are warped logarithms: differences among the slower half of times count less, so that the
process resolves the faster half.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solkit.tuner.search.encoding import Array

__all__ = ["TargetTransform"]


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
