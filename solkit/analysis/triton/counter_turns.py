"""Turns of programs at counters: what atomic additions to one number give each of them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from solkit.analysis.interpreter.values import Array


class CounterTurns:
    """Turns of each program at each counter, so far.

    A counter's share of the programs that are followed is taken to be its share of all.

    Args:
        numbers: of the programs that are followed; shape [programs].
        grid: programs in x, y and z.
    """

    def __init__(self, numbers: npt.NDArray[np.int64], grid: tuple[int, int, int]) -> None:
        self._numbers, self._programs = numbers, math.prod(grid)
        self._times: dict[int, Array] = {}  # by a counter's address

    def take(self, counters: Array, active: Array) -> Array:
        """Return each program's turn at its counter, in order of their numbers, and note it.

        Args:
            counters: address of each program's counter; shape [programs] or [1].
            active: the programs that take a turn; shape [programs].
        """
        turns: Array = np.zeros(len(active), np.int64)
        for counter in np.unique(counters).tolist():
            own = np.broadcast_to(counters == counter, turns.shape)
            share = own.mean()
            times = self._times.get(counter, np.zeros_like(turns))
            self._times[counter] = times + (active & own)
            round_of_turns = max(round(share * self._programs), 1)
            own_turns = times * round_of_turns + np.floor(share * self._numbers).astype(np.int64)
            turns = np.where(own, own_turns, turns)
        return turns

    def snapshot(self) -> dict[int, Array]:
        """Return the turns so far, for `restore`."""
        return {address: times.copy() for address, times in self._times.items()}

    def restore(self, times: dict[int, Array]) -> None:
        """Forget the turns since a snapshot."""
        self._times = times
