"""Variants of a search that were timed, by what they asked the GPU for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solkit.tuner.evolution.acquisition import Point


@dataclass
class TimedVariants:
    """Ids of variants that were timed, by what their candidates asked the GPU for.

    An empty key stands for launches or code that are unknown: these are the same as nothing.
    """

    _by_launches: dict[str, str] = field(default_factory=dict)
    _by_code: dict[str, str] = field(default_factory=dict)
    _waiting: dict[str, list[Point]] = field(default_factory=dict)  # not timed, by code

    def add(self, point: Point, launches: str, code: str) -> None:
        """Note that a candidate was timed: its compiled code need not be any more."""
        if launches:
            self._by_launches.setdefault(launches, point.variant)
        if code:
            self._by_code.setdefault(code, point.variant)
            waiting = self._waiting.get(code, ())
            self._waiting[code] = [other for other in waiting if other.key != point.key]

    def with_launches(self, launches: str) -> str:
        """Return the variant that was timed with the same launches; empty if there is none."""
        return self._by_launches.get(launches, "")

    def await_code(self, code: str, point: Point) -> None:
        """Note a candidate that may come to be measured, with its compiled code."""
        if code:
            self._waiting.setdefault(code, []).append(point)

    def pop_known(self) -> Iterator[tuple[Point, str]]:
        """Yield waiting candidates whose code was timed, with the variant; each comes once."""
        for code in self._by_code.keys() & self._waiting.keys():
            for point in self._waiting.pop(code):
                yield point, self._by_code[code]
