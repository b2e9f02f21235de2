"""Sizes at which the checker runs a problem: scaled down, awkward, and the smallest.

The interpreter needs some 10 µs for each operation of each program, however long its vectors are.
So problems are scaled down, to sizes that stay divisible and to awkward ones, and each size is kept
once as it is while the others shrink: a branch on a size is then taken as it is on the GPU. The
smallest sizes, some of them 1, are always run whole, however many sizes a problem has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from solkit.core import Value
from solkit.core.quantities import settings_text
from solkit.kernelfiles import LoadedKernel
from solkit.tuner._trial_inputs import Change

_SIDE = 128
"""Size that sizes shrink to on average: two tiles of most kernels."""
_MOST_SIDES = 3
_TINY, _KEPT, _MOST_ELEMENTS = 1 << 11, 1 << 20, 1 << 23
"""Products of all sizes: of a problem that is run whole by any kernel; of one with a size kept; and
the largest of such a one, where the others cannot shrink far enough: the reference alone takes as
long as hundreds of small sizes."""
_EVEN = 256
"""Size that each size of a candidate tried alone shrinks to: one block of most kernels fits."""
_MOST_EVEN = 1 << 20
"""Product of its sizes that are tried first: five sizes of 256 are the work of a GPU."""
_LEAST = 16
"""No size shrinks below: the least that `tl.dot` takes."""
_MOST_DOUBLINGS = 3
"""Of it, for kernels that need whole blocks: a page, a head."""
_SEVERAL = 3
"""Blocks that the longest size has where it must be a multiple of a block."""
_SMALLEST, _LEAST_OF_SMALLEST = 1 << 9, 2
"""Product of the smallest sizes, and the least of them: a kernel that needs more is not run."""
_MOST_SINGLE = 2
"""Sizes that are tried as 1, one at a time: the largest."""
_MOST_KEPT = 3
_MOST_HELD_OUT = 2
OFFSET = 100.0
"""Shift of floating inputs: one-pass variances that cancel lose 4 digits. Down where blocks are not
full, so that a maximum of what fills them, such as 0, shows; up elsewhere, as for logarithms."""
_AT_SMALLEST = "at the smallest sizes"
_PADDED = (Change("padded"),)
_VALUES_AND_LAYOUTS = (
    Change("transposed", is_redrawn=True),
    Change("padded", is_redrawn=True),
    Change(is_redrawn=True),
    Change("transposed"),
)


@dataclass(frozen=True)
class TrialSize:
    """One size to try.

    Attributes:
        shape: the sizes.
        why: what it is meant to show, for messages.
        offset: what is added to floating inputs.
        weight: trips that what is no size adds to each program: see `fixed_weight`.
        changes: of the inputs; the first that the parent takes is made.
    """

    shape: Mapping[str, Value]
    why: str
    offset: float = 0.0
    weight: int = 1
    changes: tuple[Change, ...] = ()

    @property
    def is_tiny_problem(self) -> bool:
        """True if any kernel runs it whole."""
        return self.weight * math.prod(size_values(self.shape).values()) <= 2 * _TINY

    def describe(self) -> str:
        """Return the sizes, in words."""
        listed = settings_text(self.shape)
        shifted = f", inputs shifted by {self.offset:g}" if self.offset else ""
        return f"{self.why}: {listed or 'no sizes'}{shifted}"


@dataclass(frozen=True)
class SizeLimits:
    """Sizes that a kernel takes, as far as they were tried.

    Attributes:
        least: no size shrinks below it.
        rigid: sizes that may not be odd: they stay multiples of the least.
        long: the one of these that is tried with several blocks.
    """

    least: int = _LEAST
    rigid: frozenset[str] = frozenset()
    long: str = ""

    def tiny(self, shape: Mapping[str, Value], weight: int) -> dict[str, Value]:
        """Return the shape scaled down to a problem that is run whole, if it may be so small."""
        return self.small(shape, _TINY // weight)

    def small(self, shape: Mapping[str, Value], product: int, kept: str = "") -> dict[str, Value]:
        """Return the shape scaled down to a product of its sizes, if they may be so small."""
        small = _scale_down(shape, product, kept, self.least)
        sizes = {n: v for n, v in size_values(small).items() if n in self.rigid and v > self.least}
        return {**small, **{n: -(-v // self.least) * self.least for n, v in sizes.items()}}

    def awkward(self, shape: Mapping[str, Value]) -> dict[str, Value]:
        """Return odd sizes a little below, and several blocks of the long one.

        No power of two divides the odd ones.
        """
        sizes = size_values(shape)
        odd = {n: v - 3 + v % 2 for n, v in sizes.items() if v >= _LEAST // 2}
        odd = {n: v for n, v in odd.items() if n not in self.rigid}
        return {**self.lengthened(shape, self.long), **odd}

    def lengthened(self, shape: Mapping[str, Value], name: str) -> dict[str, Value]:
        """Return a small shape with several blocks of a size, if that is one block."""
        is_block = shape.get(name) == self.least
        return {**shape, name: _SEVERAL * self.least} if is_block else dict(shape)

    def odd_shapes(self, shape: Mapping[str, Value]) -> Iterator[tuple[str, dict[str, Value]]]:
        """Yield each size of a small shape, and the shape with it alone made odd."""
        for name, size in self.awkward(shape).items():
            if size != shape[name]:
                yield name, {**shape, name: size}


def possible_limits() -> Iterator[SizeLimits]:
    """Yield limits, each with larger sizes than the one before."""
    return (SizeLimits(_LEAST << doublings) for doublings in range(_MOST_DOUBLINGS + 1))


def sizes_to_try(
    shape: Mapping[str, Value],
    held_out: Iterable[Mapping[str, Value]] = (),
    weight: int = 1,
    limits: SizeLimits = SizeLimits(),
) -> tuple[TrialSize, ...]:
    """Return the sizes to try for a problem measured at `shape`, no two alike.

    The products of sizes are so many times smaller as `weight` says.
    """
    distinct: dict[tuple[tuple[tuple[str, Value], ...], float], TrialSize] = {}
    for sized in _all_sizes(shape, list(held_out), weight, limits):
        first = distinct.setdefault((tuple(sized.shape.items()), sized.offset), sized)
        if sized.changes and not first.changes:
            distinct[tuple(sized.shape.items()), sized.offset] = replace(
                first, changes=sized.changes
            )
    return tuple(distinct.values())


def even_sizes(
    shape: Mapping[str, Value], held_out: Iterable[Mapping[str, Value]] = ()
) -> tuple[TrialSize, ...]:
    """Return sizes at which a kernel that needs divisible ones works: halved, never made odd.

    The first ones take the least time. Others keep the largest sizes as they are, one at a time.
    """
    small = _halve_sizes(shape)
    sizes = [TrialSize(_halve_product(small), "scaled down"), TrialSize(small, "scaled down")]
    for name in sorted(size_values(shape), key=lambda name: -size_values(shape)[name])[:2]:
        sizes.append(TrialSize({**small, name: shape[name]}, f"with {name} as it is"))
    sizes += [
        TrialSize(_halve_product(_halve_sizes({**shape, **other})), "at a held-out shape, smaller")
        for other in list(held_out)[:1]
    ]
    unlike: dict[tuple[tuple[str, Value], ...], TrialSize] = {}
    for sized in sizes:
        unlike.setdefault(tuple(sized.shape.items()), sized)
    return tuple(unlike.values())


def _halve_sizes(shape: Mapping[str, Value]) -> dict[str, Value]:
    """Return the shape with sizes halved while they are even and above `_EVEN`."""
    sizes = size_values(shape)
    for name in sizes:
        while sizes[name] > _EVEN and sizes[name] % 2 == 0:
            sizes[name] //= 2
    return {**shape, **sizes}


def _halve_product(shape: Mapping[str, Value]) -> dict[str, Value]:
    """Return the shape with its largest even sizes halved until few elements are left."""
    sizes = size_values(shape)
    while math.prod(sizes.values()) > _MOST_EVEN:
        open_to = [name for name, size in sizes.items() if size % 2 == 0 and size > _LEAST]
        if not open_to:
            break
        sizes[max(open_to, key=lambda name: sizes[name])] //= 2
    return {**shape, **sizes}


def _all_sizes(
    shape: Mapping[str, Value], held_out: list[Mapping[str, Value]], weight: int, limits: SizeLimits
) -> Iterator[TrialSize]:
    product = _small_product(shape) // weight

    def sized(
        sizes: Mapping[str, Value], why: str, offset: float = 0.0, changes: tuple[Change, ...] = ()
    ) -> TrialSize:
        return TrialSize(sizes, why, offset, weight, changes)

    by_size = by_length(shape)
    small, awkward = limits.small(shape, product), limits.awkward(limits.tiny(shape, weight))
    yield sized(small, "scaled down")
    yield sized(limits.awkward(small), "at awkward sizes")
    yield sized(awkward, "at small awkward sizes", 0.0, _VALUES_AND_LAYOUTS)
    yield sized(awkward, "with offset means", -OFFSET)
    yield sized(small, "with offset means", OFFSET)
    for sizes, why in _smallest_sizes(shape, by_size, weight, limits):
        yield sized(sizes, why, 0.0, _PADDED if why == _AT_SMALLEST else ())
    for name in by_size[:_MOST_KEPT]:
        kept = limits.small(shape, _KEPT // weight, name)
        if weight * math.prod(size_values(kept).values()) <= _MOST_ELEMENTS:
            yield sized(kept, f"with {name} as it is")
    for other in held_out[:_MOST_HELD_OUT]:
        yield sized(limits.small({**shape, **other}, product), "at a held-out shape, scaled down")


def _smallest_sizes(
    shape: Mapping[str, Value], by_size: list[str], weight: int, limits: SizeLimits
) -> Iterator[tuple[dict[str, Value], str]]:
    least = _LEAST_OF_SMALLEST if limits.least == _LEAST else limits.least
    smallest = _scale_down(shape, _SMALLEST // weight, least=least)
    yield smallest, _AT_SMALLEST
    for name in [name for name in by_size[:_MOST_SINGLE] if name not in limits.rigid]:
        odd = size_values(smallest)[name] + 1
        yield {**smallest, name: odd}, f"at the smallest sizes, {name} odd"
        yield {**smallest, name: 1}, f"with {name} of 1"


def fixed_weight(loaded: LoadedKernel, shape: Mapping[str, Value]) -> int:
    """Return how many trips a program makes over the dimensions that no size decides, about.

    A row of a benchmark's definition has thousands of elements that are no size. Blocks hold about
    the root of such a number. 1 where the problem accepts no small sizes.
    """
    small = _scale_down(shape, 1)
    doubled = {**small, **{name: 2 * size for name, size in size_values(small).items()}}
    try:
        sides = [loaded.workload(sizes, {}, "cpu").tensors() for sizes in (small, doubled)]
    except Exception:  # the user's code may refuse any size
        return 1
    fixed = 1
    for one, other in zip(*sides, strict=False):
        pairs = list(zip(one.shape, other.shape, strict=False))
        if any(a != b for a, b in pairs):
            fixed = max(fixed, math.prod(a for a, b in pairs if a == b))
    return math.isqrt(fixed)


def _small_product(shape: Mapping[str, Value]) -> int:
    """Return the product of the sizes of a problem scaled down."""
    return int(_SIDE ** min(max(len(size_values(shape)), 2), _MOST_SIDES))


def by_length(shape: Mapping[str, Value]) -> list[str]:
    """Return the names of sizes, the largest first."""
    sizes = size_values(shape)
    return sorted(sizes, key=lambda name: -sizes[name])


def size_values(shape: Mapping[str, Value]) -> dict[str, int]:
    return {n: v for n, v in shape.items() if isinstance(v, int) and v > 1 and v is not True}


def _scale_down(
    shape: Mapping[str, Value], limit: int, kept: str = "", least: int = _LEAST
) -> dict[str, Value]:
    """Return the shape with its largest sizes halved until their product is within the limit."""
    sizes = size_values(shape)
    while math.prod(sizes.values()) > limit:
        open_to = {n: v for n, v in sizes.items() if n != kept and v > least}
        if not open_to:
            break
        largest = max(open_to, key=lambda name: open_to[name])
        sizes[largest] = max(-(-sizes[largest] // 2), least)
    return {**shape, **sizes}
