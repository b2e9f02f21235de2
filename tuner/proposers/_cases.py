"""The sizes at which a variant is tried in Triton's interpreter, made from those of its problem.

The interpreter needs some 10 µs for each operation of each program, however long its vectors are.
So problems are scaled down, to sizes that stay divisible and to awkward ones, and each size is kept
once as it is while the others shrink: a branch on a size is then taken as it is on the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from solkit.core import Value

__all__ = ["Sized", "even_sizes", "sizes_to_try"]

_SIDE = 128
"""Size that sizes shrink to on average: two tiles of most kernels."""
_MOST_SIDES = 3
_TINY, _KEPT = 1 << 11, 1 << 20
"""Products of all sizes: of a problem that is run whole by any kernel; of one with a size kept."""

_EVEN = 256
"""Size that each size of a candidate tried alone shrinks to: one block of most kernels fits."""

_LEAST = 16
"""No size shrinks below: the least that `tl.dot` takes."""

_MOST_KEPT = 3
_MOST_HELD_OUT = 2
OFFSET = 100.0
"""Shift of floating inputs: one-pass variances that cancel lose 4 digits."""


@dataclass(frozen=True)
class Sized:
    """One size to try.

    Attributes:
        shape: the sizes.
        why: what it is meant to show, for messages.
        offset: what is added to floating inputs.
    """

    shape: Mapping[str, Value]
    why: str
    offset: float = 0.0

    @property
    def is_tiny(self) -> bool:
        """True if any kernel runs it whole."""
        return math.prod(_sizes(self.shape).values()) <= 2 * _TINY

    def describe(self) -> str:
        """Return the sizes, in words."""
        listed = ", ".join(f"{name}={value}" for name, value in self.shape.items())
        shifted = f", inputs shifted by {self.offset:g}" if self.offset else ""
        return f"{self.why}: {listed or 'no sizes'}{shifted}"


def sizes_to_try(
    shape: Mapping[str, Value], held_out: Iterable[Mapping[str, Value]] = ()
) -> tuple[Sized, ...]:
    """Return the sizes to try for a problem measured at `shape`, no two alike."""
    distinct: dict[tuple[tuple[tuple[str, Value], ...], float], Sized] = {}
    for sized in _all(shape, list(held_out)):
        distinct.setdefault((tuple(sized.shape.items()), sized.offset), sized)
    return tuple(distinct.values())


def even_sizes(
    shape: Mapping[str, Value], held_out: Iterable[Mapping[str, Value]] = ()
) -> tuple[Sized, ...]:
    """Return sizes at which a kernel that needs divisible ones works: halved, never made odd.

    The last two keep the largest sizes as they are, one at a time.
    """
    small = _halved(shape)
    sizes = [Sized(small, "scaled down")]
    for name in sorted(_sizes(shape), key=lambda name: -_sizes(shape)[name])[:2]:
        sizes.append(Sized({**small, name: shape[name]}, f"with {name} as it is"))
    sizes += [
        Sized(_halved({**shape, **other}), "at a held-out shape, scaled down")
        for other in list(held_out)[:1]
    ]
    unlike: dict[tuple[tuple[str, Value], ...], Sized] = {}
    for sized in sizes:
        unlike.setdefault(tuple(sized.shape.items()), sized)
    return tuple(unlike.values())


def _halved(shape: Mapping[str, Value]) -> dict[str, Value]:
    """Return the shape with sizes halved while they are even and above `_EVEN`."""
    sizes = _sizes(shape)
    for name in sizes:
        while sizes[name] > _EVEN and sizes[name] % 2 == 0:
            sizes[name] //= 2
    return {**shape, **sizes}


def _all(shape: Mapping[str, Value], held_out: list[Mapping[str, Value]]) -> Iterator[Sized]:
    small = _scaled(shape, _small(shape))
    yield Sized(small, "scaled down")
    yield Sized(_awkward(small), "at awkward sizes")
    yield Sized(_awkward(_scaled(shape, _TINY)), "at small awkward sizes")
    yield Sized(_awkward(_scaled(shape, _TINY)), "with offset means", OFFSET)
    yield Sized(small, "with offset means", OFFSET)
    for name in sorted(_sizes(shape), key=lambda name: -_sizes(shape)[name])[:_MOST_KEPT]:
        yield Sized(_scaled(shape, _KEPT, kept=name), f"with {name} as it is")
    for other in held_out[:_MOST_HELD_OUT]:
        yield Sized(_scaled({**shape, **other}, _small(shape)), "at a held-out shape, scaled down")


def _small(shape: Mapping[str, Value]) -> int:
    """Return the product of the sizes of a problem scaled down."""
    return int(_SIDE ** min(max(len(_sizes(shape)), 2), _MOST_SIDES))


def _sizes(shape: Mapping[str, Value]) -> dict[str, int]:
    return {n: v for n, v in shape.items() if isinstance(v, int) and v > 1 and v is not True}


def _scaled(shape: Mapping[str, Value], limit: int, kept: str = "") -> dict[str, Value]:
    """Return the shape with its largest sizes halved until their product is within the limit."""
    sizes = _sizes(shape)
    while math.prod(sizes.values()) > limit:
        open_to = {n: v for n, v in sizes.items() if n != kept and v > _LEAST}
        if not open_to:
            break
        largest = max(open_to, key=lambda name: open_to[name])
        sizes[largest] = max(-(-sizes[largest] // 2), _LEAST)
    return {**shape, **sizes}


def _awkward(shape: Mapping[str, Value]) -> dict[str, Value]:
    """Return odd sizes a little below: no power of two divides them."""
    odd = {n: v - 3 + v % 2 for n, v in _sizes(shape).items() if v >= _LEAST // 2}
    return {**shape, **odd}
