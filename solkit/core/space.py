"""A kernel's tuning space: named parameters with their values, and which points are legal.

A point gives each parameter one of its values. A space of 10¹² points costs no more memory than one
of ten: a point is computed from its index (mixed radix, last parameter fastest), legality is tested
point by point, and the product is never listed. Values keep their types: 1, 1.0 and True are three
values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from solkit.core.values import Value
from solkit.errors import InputError, ParamsError, SolkitError

Params = Mapping[str, Value]

LEAST_ACCEPTANCE = 1e-5
"""Sampling gives up if a smaller share of the points is legal."""

_PATIENCE = 3  # times the draws in which one legal point is expected: e^-3 to give up wrongly


@dataclass(frozen=True)
class Constraint:
    """A condition that legal points meet.

    Attributes:
        text: its name in messages, e.g. ``"block_size_x * block_size_y <= 1024"``.
        holds: whether values by name meet it; called with at least those that `names` lists.
        names: the parameters that it reads; ``None`` means all.
    """

    text: str
    holds: Callable[[Params], Any]
    names: tuple[str, ...] | None = None


class _Distinct(tuple[Value, ...]):
    """Checked values, without duplicates."""

    __slots__ = ()


@dataclass(frozen=True)
class Space:
    """The points that a search may try.

    Attributes:
        values: each parameter's values in order; duplicates count once. A `range` is kept as it is.
        constraints: conditions that legal points meet.
        points: the only points, if the space is a list; see `of_points`.

    Raises:
        ParamsError: a value is not a number, bool or string; a constraint names an unknown
            parameter.
    """

    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    points: tuple[Params, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        values = {name: _distinct_values(name, listed) for name, listed in self.values.items()}
        object.__setattr__(self, "values", values)
        for constraint in self.constraints:
            self._check_names(constraint.names or (), f"the constraint {constraint.text}")

    @classmethod
    def of_points(cls, points: Iterable[Params]) -> Space:
        """Return the space of exactly these points, such as recorded ones.

        Each parameter's values are sorted: numbers by size, then strings by spelling.

        Raises:
            ParamsError: two points have different parameters.
        """
        unique = {point_key(point): dict(point) for point in points}
        first = next(iter(unique.values()), {})
        levels: dict[str, dict[Any, Value]] = {name: {} for name in first}
        for point in unique.values():
            if point.keys() != first.keys():
                raise ParamsError(
                    f"points of one space have the same parameters: {_format_params(point)} "
                    f"does not have those of {_format_params(first)}"
                )
            for name, value in point.items():
                levels[name][type(value), value] = value
        values = {
            name: sorted(level.values(), key=_sort_key_of_value) for name, level in levels.items()
        }
        return cls(values, (), tuple(unique.values()))

    def where(
        self, text: str, holds: Callable[[Params], Any], names: Sequence[str] | None = None
    ) -> Space:
        """Return the legal points that also meet a condition; see `Constraint`."""
        added = Constraint(text, holds, None if names is None else tuple(names))
        return replace(self, constraints=(*self.constraints, added))

    @cached_property
    def size(self) -> int:
        """Number of points, legal or not."""
        if self.points is not None:
            return len(self.points)
        return math.prod(len(listed) for listed in self.values.values())

    def point(self, index: int) -> Params:
        """Return the point at an index from 0 to `size` - 1; the last parameter changes fastest.

        Raises:
            ParamsError: the index is out of range.
        """
        if not 0 <= index < self.size:
            raise ParamsError(f"the space has no point {index}: it has {self.size} points")
        if self.points is not None:
            return self.points[index]
        return {name: v[index // weight % len(v)] for name, v, weight in self._mixed_radix_digits}

    def index(self, params: Params) -> int:
        """Return the index of a point, legal or not.

        Raises:
            ParamsError: it is not a point of the space.
        """
        if params.keys() != self.values.keys():
            named, valid = ", ".join(params) or "none", ", ".join(self.values) or "none"
            raise ParamsError(f"the point has the parameters {named}; the space has {valid}")
        places = self.places(params)
        if self.points is None:
            return sum(
                place * weight for place, (_, _, weight) in zip(places, self._mixed_radix_digits)
            )
        place = self._index_by_point.get(point_key(params))
        if place is None:
            raise ParamsError(
                f"{_format_params(params)} is not one of the {self.size} points of the space"
            )
        return place

    def places(self, params: Params) -> tuple[int, ...]:
        """Return the index of each parameter's value among its values.

        Raises:
            ParamsError: a value is not one of them.
        """
        return tuple(self._index_of_value(name, params[name]) for name in self.values)

    def __contains__(self, params: Params) -> bool:
        """Tell whether it is a legal point.

        Raises:
            ParamsError: a constraint fails on it.
        """
        try:
            self.index(params)
        except ParamsError:
            return False
        return self.is_legal(params)

    def is_legal(self, params: Params) -> bool:
        """Tell whether a point meets every constraint.

        Raises:
            ParamsError: a constraint fails on it.
        """
        return all(_constraint_holds(constraint, params) for constraint in self.constraints)

    def walk(self) -> Iterator[Params]:
        """Yield each legal point once, in the order of indices.

        If a constraint rules out the values of the first parameters, the others are skipped.

        Raises:
            ParamsError: a constraint fails.
        """
        if self.points is not None:
            return filter(self.is_legal, self.points)
        if not all(
            _constraint_holds(constraint, {})
            for constraint in self._constraints_by_depth.get(-1, ())
        ):
            return iter(())
        return self._legal_extensions({}, 0)

    def _legal_extensions(self, chosen: Params, depth: int) -> Iterator[Params]:
        """Yield the legal points that begin with the chosen values."""
        if depth == len(self._mixed_radix_digits):
            yield chosen
            return
        name, listed, _ = self._mixed_radix_digits[depth]
        due = self._constraints_by_depth.get(depth, ())
        for value in listed:
            longer = {**chosen, name: value}
            if all(_constraint_holds(constraint, longer) for constraint in due):
                yield from self._legal_extensions(longer, depth + 1)

    def shuffled(self, seed: int | str) -> Iterator[Params]:
        """Yield each legal point once, in random order: each next one is uniform over the rest.

        Points are drawn and illegal ones rejected.

        Raises:
            InputError: fewer than `LEAST_ACCEPTANCE` of the points seem legal.
            ParamsError: a constraint fails.
        """
        chance = random.Random(seed)
        seen: set[int] = set()
        legal = 0
        while 2 * len(seen) < self.size:
            if len(seen) * LEAST_ACCEPTANCE > _PATIENCE * (legal + 1):
                raise InputError(self._explain_too_few_legal(len(seen), legal))
            place = chance.randrange(self.size)
            if place in seen:
                continue
            seen.add(place)
            if self.is_legal(point := self.point(place)):
                legal += 1
                yield point
        rest = [place for place in range(self.size) if place not in seen]
        chance.shuffle(rest)
        yield from filter(self.is_legal, map(self.point, rest))

    def _explain_too_few_legal(self, drawn: int, legal: int) -> str:
        texts = "; ".join(repr(constraint.text) for constraint in self.constraints)
        return (
            f"{legal} of {drawn:,} points drawn are legal, fewer than 1 in "
            f"{round(1 / LEAST_ACCEPTANCE):,}: the space cannot be sampled. Remove values that are "
            f"never legal from {', '.join(self.values)}, or loosen: {texts}"
        )

    @cached_property
    def _mixed_radix_digits(self) -> list[tuple[str, Sequence[Value], int]]:
        """Parameters with their values and how many points apart two neighbouring values are."""
        weight, digits = 1, []
        for name, listed in reversed(list(self.values.items())):
            digits.append((name, listed, weight))
            weight *= len(listed)
        return digits[::-1]

    @cached_property
    def _constraints_by_depth(self) -> dict[int, list[Constraint]]:
        """Constraints that can be tested once a parameter, counted from 0, has a value."""
        order = {name: depth for depth, name in enumerate(self.values)}
        due: dict[int, list[Constraint]] = {}
        for constraint in self.constraints:
            names = order if constraint.names is None else constraint.names
            due.setdefault(max((order[name] for name in names), default=-1), []).append(constraint)
        return due

    @cached_property
    def _index_by_value(self) -> dict[str, dict[Any, int]]:
        """Index of each typed value, by parameter; ranges find theirs themselves."""
        return {
            name: {(type(value), value): place for place, value in enumerate(listed)}
            for name, listed in self.values.items()
            if not isinstance(listed, range)
        }

    @cached_property
    def _index_by_point(self) -> dict[Any, int]:
        """The index of each point of a list."""
        return {point_key(point): place for place, point in enumerate(self.points or ())}

    def _index_of_value(self, name: str, value: Value) -> int:
        listed = self.values[name]
        if isinstance(listed, range):
            place = listed.index(value) if type(value) is int and value in listed else None
        else:
            place = self._index_by_value[name].get((type(value), value))
        if place is None:
            shown = ", ".join(map(repr, listed[:8])) + (" …" if len(listed) > 8 else "")
            raise ParamsError(f"{name} has no value {value!r}; its values are: {shown}")
        return place

    def _check_names(self, names: Iterable[str], where: str) -> None:
        for name in names:
            if name not in self.values:
                valid = ", ".join(self.values) or "none"
                raise ParamsError(f"{where} names {name!r}; the parameters are: {valid}")


def _distinct_values(name: str, listed: Sequence[Value]) -> Sequence[Value]:
    """Return each value once; a range, which has no duplicates, as it is."""
    if isinstance(listed, (range, _Distinct)):
        return listed
    for value in listed:
        if not isinstance(value, (int, float, str, type(None))):
            raise ParamsError(f"{name} has the value {value!r}; expected a number, bool or string")
    return _Distinct({(type(value), value): value for value in listed}.values())


def _constraint_holds(constraint: Constraint, params: Params) -> bool:
    try:
        return bool(constraint.holds(params))
    except SolkitError:
        raise
    except Exception as error:  # whatever a user's function may raise
        raise ParamsError(
            f"{constraint.text} raised {type(error).__name__}: {error} at {_format_params(params)}"
        ) from error


PointKey = frozenset[tuple[str, type, Value]]


def point_key(params: Params) -> PointKey:
    """Return a point's identity: 1, 1.0 and True are three values."""
    return frozenset((name, type(value), value) for name, value in params.items())


def _format_params(params: Params) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "no parameters"


def _sort_key_of_value(value: Value) -> tuple[bool, float, str]:
    """Rank numbers by size, before strings by spelling."""
    return (False, float(value), "") if isinstance(value, (int, float)) else (True, 0.0, str(value))
