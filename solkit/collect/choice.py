"""Which configurations of a kernel to try next."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from solkit.core import Value
from solkit.datasets.record import canonical

__all__ = [
    "DEFAULT",
    "ENOUGH_NEAR",
    "LATIN_HYPERCUBE",
    "NEAR",
    "NEAR_BEST",
    "RANDOM",
    "REPEAT",
    "Chooser",
    "Params",
    "is_sparse",
]

Params = Mapping[str, Value]
Chosen = tuple[Params, str]
_Place = tuple[int, ...]

DEFAULT, LATIN_HYPERCUBE, RANDOM = "default", "latin_hypercube", "random"
NEAR_BEST, REPEAT = "near_best", "repeat"

NEAR, ENOUGH_NEAR = 1.1, 8
"""A configuration is good within this factor of its problem's best; so many are to be known."""

_BEST = 4  # whose neighbours are tried
_POINTS = 12  # of one Latin hypercube
_DRAWN = 6  # single ones between two hypercubes


class Chooser:
    """The configurations of one kernel at one shape, in the order in which they are to be tried.

    What `spread` gives depends on the seed alone, so that it is the same on every GPU; what `near`
    gives depends on the times.

    Args:
        valid: every valid configuration, all of the same parameters.
        default: the kernel file's own.
        seed: what is drawn depends on it.
    """

    def __init__(self, valid: Sequence[Params], default: Params, seed: str) -> None:
        self._params = {canonical(params): params for params in valid}
        places = _places(valid)
        self._place = dict(zip(self._params, places, strict=True))
        self._name = {place: name for name, place in self._place.items()}
        self._sizes = [1 + max(column) for column in zip(*places)]
        self._order = self._spread(canonical(default), random.Random(seed))
        self._chance = random.Random(f"{seed} near")
        self._left = set(self._params)
        self._times_ms: dict[str, float] = {}

    def __len__(self) -> int:
        """How many are left to try."""
        return len(self._left)

    @property
    def times_ms(self) -> Collection[float]:
        """The time of each that was right so far, in milliseconds."""
        return self._times_ms.values()

    @property
    def best_ms(self) -> float | None:
        """The shortest time so far; ``None`` where none was right."""
        return min(self._times_ms.values(), default=None)

    def params(self, name: str) -> Params | None:
        """The configuration of that canonical name; ``None`` where it is not valid."""
        return self._params.get(name)

    def note(self, params: Params, time_ms: float | None) -> None:
        """Take note of one that was tried, and of its time where it was right."""
        name = canonical(params)
        self._left.discard(name)
        if time_ms is not None and name in self._place:
            self._times_ms[name] = min(time_ms, self._times_ms.get(name, time_ms))

    def spread(self, count: int) -> list[Chosen]:
        """Some from all over the space, and how each was come by."""
        fresh = ((name, how) for name, how in self._order if name in self._left)
        return [self._take(name, how) for name, how in itertools.islice(fresh, count)]

    def near(self, count: int) -> list[Chosen]:
        """Some that are one step of a parameter from the best so far, then two steps."""
        best = sorted(self._times_ms, key=self._times_ms.__getitem__)[:_BEST]
        steps: dict[str, int] = {}
        for name in best:
            for other, far in self._around(self._place[name]):
                if other in self._left:
                    steps[other] = min(far, steps.get(other, far))
        nearest = sorted(steps, key=lambda name: (steps[name], self._chance.random()))
        return [self._take(name, NEAR_BEST) for name in nearest[:count]]

    def _take(self, name: str, how: str) -> Chosen:
        self._left.discard(name)
        return self._params[name], how

    def _around(self, place: _Place) -> Iterator[tuple[str, int]]:
        """Valid configurations one and two steps away."""
        singles = [(axis, by) for axis in range(len(place)) for by in (-1, 1)]
        for first, second in itertools.combinations_with_replacement([None, *singles], 2):
            moved = list(place)
            for step in (first, second):
                if step is not None:
                    moved[step[0]] += step[1]
            far = sum(abs(a - b) for a, b in zip(moved, place, strict=True))
            if far and (name := self._name.get(tuple(moved))) is not None:
                yield name, far

    def _spread(self, default: str, chance: random.Random) -> Iterator[tuple[str, str]]:
        """All of them once: the default, then hypercubes and single draws in turns."""
        if default in self._params:
            yield default, DEFAULT
        rest = [name for name in self._params if name != default]
        chance.shuffle(rest)
        left = dict.fromkeys(rest)
        while left:
            for place in self._hypercube(chance):
                name = self._name.get(place, "")
                if name in left:
                    del left[name]
                    yield name, LATIN_HYPERCUBE
            for name in itertools.islice(list(left), _DRAWN):
                del left[name]
                yield name, RANDOM

    def _hypercube(self, chance: random.Random) -> Iterator[_Place]:
        """Points at which every value of every parameter is met about equally often.

        One that is no valid configuration is replaced by none: what is valid is no box.
        """
        count = max(_POINTS, *self._sizes)
        columns = []
        for size in self._sizes:
            column = [point * size // count for point in range(count)]
            chance.shuffle(column)
            columns.append(column)
        yield from zip(*columns, strict=True)


def is_sparse(times_ms: Sequence[float]) -> bool:
    """Whether few good configurations of a problem are known, and most are not good.

    Args:
        times_ms: of the configurations that were right.
    """
    if not times_ms:
        return True
    good_ms = NEAR * min(times_ms)
    few = sum(time_ms <= good_ms for time_ms in times_ms) < ENOUGH_NEAR
    return few and statistics.median(times_ms) > good_ms


def _places(valid: Sequence[Params]) -> list[_Place]:
    """Each configuration's value of each parameter as its place among that parameter's values."""
    levels: dict[str, dict[str, int]] = {}
    for key in valid[0] if valid else ():
        values = {_text(params[key]): params[key] for params in valid}
        levels[key] = {
            text: n for n, text in enumerate(sorted(values, key=lambda text: _rank(values[text])))
        }
    return [tuple(levels[key][_text(params[key])] for key in levels) for params in valid]


def _text(value: Value) -> str:
    return canonical({"": value})


def _rank(value: Value) -> tuple[bool, float, str]:
    """Numbers by their size, before words by their spelling."""
    return (False, float(value), "") if isinstance(value, (int, float)) else (True, 0.0, str(value))
