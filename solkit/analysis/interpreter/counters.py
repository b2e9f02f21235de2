"""Counters of what programs do, which a loop can extrapolate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from solkit.analysis.interpreter.values import Array


class Counters:
    """Numbers by key and program (thread block).

    Attributes:
        programs: how many are followed together.
        by_key: numbers of shape [programs], in the order of their first use.
    """

    def __init__(self, programs: int) -> None:
        self.programs = programs
        self.by_key: dict[Any, Array] = {}

    def add(self, key: Any, amount: Array | float) -> None:
        """Add to a key's numbers; `amount` broadcasts to [programs]."""
        total = self.by_key.get(key)
        if total is None:
            self.by_key[key] = np.broadcast_to(amount, (self.programs,)).astype(np.float64)
        else:
            self.by_key[key] = total + amount  # not in place: a snapshot may share the array

    def of(self, key: Any) -> Array:
        """Return a key's numbers; zeros by default."""
        numbers = self.by_key.get(key)
        return np.zeros(self.programs) if numbers is None else numbers

    def total(self, key: Any) -> float:
        """Sum a key's numbers over the programs."""
        numbers = self.by_key.get(key)
        return 0.0 if numbers is None else float(numbers.sum())

    def snapshot(self) -> dict[Any, Array]:
        """Return the present numbers, for `since`."""
        return dict(self.by_key)

    def since(self, earlier: Mapping[Any, Array]) -> dict[Any, Array]:
        """Return what was added since a snapshot, without zeros."""
        changed = {k: n for k, n in self.by_key.items() if n is not earlier.get(k)}
        grown = {key: n - earlier.get(key, 0) for key, n in changed.items()}
        return {key: n for key, n in grown.items() if n.any()}

    def repeat(self, counted: Mapping[Any, Array], times: Array | float) -> None:
        """Add what some iterations counted, as often as each program repeats them."""
        for key, amount in counted.items():
            self.add(key, amount * times)

    def are_equal(
        self, now: Mapping[Any, Array], before: Mapping[Any, Array], keys: Iterable[Any]
    ) -> Array:
        """Tell which programs counted the same twice, of some keys."""
        alike = np.ones(self.programs, bool)
        for key in keys:
            alike &= np.equal(now.get(key, 0.0), before.get(key, 0.0))
        return alike
