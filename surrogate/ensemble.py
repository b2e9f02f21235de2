"""Several models' forecasts as one: each has a weight, learned where none knew the family.

Members say log2(time / base). The kernel model's own word is 0: what the weights leave of 1 is its
share, so a stack may draw its members towards it (Wolpert, "Stacked generalization", 1992; weights
that are not negative: Breiman, "Stacked regressions", 1996).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from solkit.errors import InputError
from solkit.surrogate.features import Array

__all__ = ["Stack"]


@dataclass(frozen=True)
class Stack:
    """Weights of the members.

    Attributes:
        weights: by member; none is negative.
    """

    weights: Mapping[str, float]

    @staticmethod
    def fit(targets: Array, forecasts: Mapping[str, Array], weight: Array | None = None) -> Stack:
        """Return the weights with the least squared error.

        Args:
            targets: log2(time / base), (rows,).
            forecasts: of each member, of rows of families that it did not know, (rows,) each;
                rows of which a member says nothing (NaN) do not count.
            weight: of the rows, (rows,); all alike by default.

        Raises:
            InputError: no row has a word of every member.
        """
        from scipy.optimize import nnls

        parts = np.stack(list(forecasts.values()), axis=1)
        complete = ~np.isnan(parts).any(axis=1) & ~np.isnan(targets)
        if not complete.any():
            raise InputError(f"no row was forecast by all of {', '.join(forecasts)}")
        root = np.sqrt(np.ones(len(targets)) if weight is None else weight)[complete]
        solution, _ = nnls(parts[complete] * root[:, None], targets[complete] * root)
        return Stack({name: float(share) for name, share in zip(forecasts, solution, strict=True)})

    def mean(self, forecasts: Mapping[str, Array]) -> Array:
        """Combine what the members say, (rows,).

        Raises:
            KeyError: a member with a weight says nothing.
        """
        return np.asarray(sum(weight * forecasts[name] for name, weight in self.weights.items()))
