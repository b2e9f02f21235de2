"""The points among which a search chooses: all of a small space, or a sample and neighbourhoods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np

from solkit.core import Space
from solkit.tuner.search.encoding import Encoding, Places

__all__ = ["Candidates"]

LISTED = 50_000
"""Spaces of at most so many points, legal or not, are listed."""

_VALUES_TRIED = 24  # of one parameter, around a point of a space that is not listed


class Candidates:
    """Legal points of a space that were not taken yet.

    Args:
        space: the space.
        encoding: its encoding.
        seed: of what is drawn.
    """

    def __init__(self, space: Space, encoding: Encoding, seed: int) -> None:
        self._space, self._encoding = space, encoding
        self._chance = np.random.default_rng([seed, 1])
        self._taken: set[int] = set()
        self._fresh: Iterator[Places] = iter(())
        self._spent = False
        self.listed = space.size <= LISTED
        if self.listed:
            self._every = encoding.places(list(space.walk()))
            self._keys = encoding.keys(self._every)
            self._free = np.ones(len(self._every), bool)
            self._at = {int(key): at for at, key in enumerate(self._keys)}
        else:
            drawn = space.shuffled(seed)
            self._fresh = (encoding.places([point])[0] for point in drawn)

    def take(self, places: Places) -> None:
        """Offer this point no more."""
        key = int(self._encoding.keys(places[None])[0])
        self._taken.add(key)
        if self.listed and (at := self._at.get(key)) is not None:
            self._free[at] = False

    def is_taken(self, places: Places) -> bool:
        """Whether the point was taken."""
        return int(self._encoding.keys(places[None])[0]) in self._taken

    @property
    def left(self) -> float:
        """How many points are left; infinite where the space is not listed."""
        return float(self._free.sum()) if self.listed else math.inf

    @property
    def exhausted(self) -> bool:
        """Whether no point is left."""
        if self.listed:
            return not self._free.any()
        return self._spent

    def spread(self, most: int) -> Places:
        """Free points drawn uniformly, at most so many: (points, parameters)."""
        if self.listed:
            free = np.flatnonzero(self._free)
            if len(free) > most:
                free = self._chance.choice(free, most, replace=False)
            return self._every[np.sort(free)]
        while len(drawn := list(itertools.islice(self._fresh, most))):
            if len(free := self._untaken(drawn)):
                return free
        self._spent = True
        return self._untaken(())

    def around(self, centres: Places, most: int) -> Places:
        """Free points that differ from a centre in one parameter, or two if there is room."""
        if not self.listed:
            return self._untaken(self._varied(centres, most))
        free = np.flatnonzero(self._free)
        differing = (self._every[free][:, None] != centres[None]).sum(2).min(1)
        order = np.argsort(differing + self._chance.random(len(free)), kind="stable")
        return self._every[free[order[:most]]]

    def _varied(self, centres: Places, most: int) -> Iterator[Places]:
        """Legal points one parameter away from a centre, each centre and parameter in turns."""
        sizes = [len(values) for values in self._space.values.values()]
        made = 0
        for centre in centres:
            for at, size in enumerate(sizes):
                others = [other for other in range(size) if other != centre[at]]
                if len(others) > _VALUES_TRIED:
                    near = sorted(others, key=lambda other: abs(other - int(centre[at])))
                    half = _VALUES_TRIED // 2
                    far = self._chance.choice(near[half:], half, replace=False)
                    others = [*near[:half], *map(int, far)]
                for other in others:
                    if made >= most:
                        return
                    places = centre.copy()
                    places[at] = other
                    made += 1
                    if self._space.is_legal(self._encoding.point(places)):
                        yield places

    def _untaken(self, rows: Iterable[Places]) -> Places:
        """Those not taken, each once."""
        listed = list(rows)
        if not listed:
            return np.zeros((0, len(self._space.values)), np.int64)
        every = np.array(listed)
        keys = self._encoding.keys(every)
        _, first = np.unique(keys, return_index=True)
        kept = [at for at in np.sort(first) if int(keys[at]) not in self._taken]
        return every[kept]
