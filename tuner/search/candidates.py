"""The points among which a search chooses: all of a small space, or a sample and neighbourhoods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np

from solkit.core import Params, Space
from solkit.tuner.search.encoding import Array, Encoding, Places

LISTED = 50_000
"""Spaces of at most so many points, legal or not, are listed."""

_NEW = 0.2  # share of a sample that is drawn anew
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
        self.listed = space.size <= LISTED
        self._fresh: Iterator[Params] = iter(()) if self.listed else space.shuffled(seed)
        self._spent = self.listed  # whether every legal point is known
        # the points known: all that are legal, or those drawn so far
        self._every = encoding.places([])
        self._keys: Array = np.zeros(0, np.uint64)
        self._free: Array = np.zeros(0, bool)
        self._at: dict[int, int] = {}
        if self.listed:
            self._add_points(encoding.places(list(space.walk())))

    def _add_points(self, places: Places) -> None:
        """Take up more known points."""
        keys = self._encoding.keys(places)
        self._at.update(zip(map(int, keys), range(len(self._every), len(self._every) + len(keys))))
        self._every = np.vstack([self._every, places])
        self._keys = np.concatenate([self._keys, keys])
        free = [int(key) not in self._taken for key in keys]
        self._free = np.concatenate([self._free, np.array(free, bool)])

    def take(self, places: Places) -> None:
        """Offer this point no more."""
        key = int(self._encoding.keys(places[None])[0])
        self._taken.add(key)
        if (at := self._at.get(key)) is not None:
            self._free[at] = False

    @property
    def remaining(self) -> float:
        """Number of points that are left; infinite where not all are known."""
        return float(self._free.sum()) if self._spent else math.inf

    @property
    def most_remaining(self) -> float:
        """Number of points that are left, illegal ones included where not all are known."""
        return min(self.remaining, self._space.size - len(self._taken))

    @property
    def exhausted(self) -> bool:
        """True if no point is left."""
        return self._spent and not self._free.any()

    def spread(self, most: int) -> Places:
        """Free points drawn uniformly, at most so many: (points, parameters).

        Where not all points are known, a fifth of them is new.
        """
        if not self._spent:
            number = max(int(most * _NEW), most - int(self._free.sum()))
            drawn = list(itertools.islice(self._fresh, number))
            self._spent = len(drawn) < number
            self._add_points(self._encoding.places(drawn))
        free = np.flatnonzero(self._free)
        if len(free) > most:
            free = np.sort(self._chance.choice(free, most, replace=False))
        return self._every[free]

    def around(self, centres: Places, most: int) -> Places:
        """Free points that differ from a centre in one parameter, or two if there is room."""
        if not self.listed:
            return self._untaken_points(self._vary_centres(centres, most))
        free = np.flatnonzero(self._free)
        differing = (self._every[free][:, None] != centres[None]).sum(2).min(1)
        order = np.argsort(differing + self._chance.random(len(free)), kind="stable")
        return self._every[free[order[:most]]]

    def _vary_centres(self, centres: Places, most: int) -> Iterator[Places]:
        """Yield legal points a parameter away from a centre, each centre and parameter in turns."""
        sizes = [len(values) for values in self._space.values.values()]
        tried = 0
        for centre in centres:
            for at, size in enumerate(sizes):
                for other in self._other_places(int(centre[at]), size):
                    if tried >= most:
                        return
                    places = centre.copy()
                    places[at] = other
                    tried += 1
                    if self._space.is_legal(self._encoding.point(places)):
                        yield places

    def _other_places(self, own: int, size: int) -> list[int]:
        """Return other places of a parameter: all, or the nearest and some at random."""
        if size <= _VALUES_TRIED:
            return [other for other in range(size) if other != own]
        half = _VALUES_TRIED // 2
        near = range(max(own - half // 2, 0), min(own + half // 2 + 1, size))
        far = map(int, self._chance.integers(0, size, half))
        return [other for other in dict.fromkeys((*near, *far)) if other != own]

    def _untaken_points(self, rows: Iterable[Places]) -> Places:
        """Return the points not taken, each once."""
        listed = list(rows)
        if not listed:
            return np.zeros((0, len(self._space.values)), np.int64)
        every = np.array(listed)
        keys = self._encoding.keys(every)
        _, first = np.unique(keys, return_index=True)
        kept = [at for at in np.sort(first) if int(keys[at]) not in self._taken]
        return every[kept]
