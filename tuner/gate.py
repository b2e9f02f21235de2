"""The gate: a winner must hold at shapes that it was not tuned for.

It meets the parameters in use at each held-out shape. It must be correct at all of them, and not
slower at those for which it would be taken: a kernel with winners for several shapes takes the one
of the nearest shape. So one for small sizes need not be fast at large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from solkit.core import Configuration, Difference, Final, HeldOut, Value
from solkit.tuner.known import distance

__all__ = ["SLACK", "gate", "nearest"]

SLACK = 0.01
"""How much slower counts as equal, where no difference is shown: the likeness of two builds."""

_PASSES = (Difference.FASTER, Difference.NOT_SHOWN)
Judge = Callable[[Configuration, Configuration], Final]


def nearest(shape: Mapping[str, Value], shapes: Sequence[Mapping[str, Value]]) -> int:
    """The place of the shape that is nearest, in doublings of sizes; the first of equal ones."""
    return min(range(len(shapes)), key=lambda place: distance(shapes[place], shape))


def gate(
    base: Configuration,
    rival: Configuration,
    held_out: Sequence[tuple[Mapping[str, Value], bool]],
    judge: Judge,
) -> tuple[HeldOut, ...]:
    """Compare a winner with what is in use at held-out shapes.

    Args:
        base: the parameters in use.
        rival: the winner.
        held_out: shapes, each with whether the winner must not be slower there.
        judge: compares the two at a shape.

    Raises:
        SolkitError: the bench failed.
    """
    return tuple(_held(base, rival, shape, strict, judge) for shape, strict in held_out)


def _held(
    base: Configuration,
    rival: Configuration,
    shape: Mapping[str, Value],
    strict: bool,
    judge: Judge,
) -> HeldOut:
    found = judge(replace(base, shape=shape), replace(rival, shape=shape))
    passed, why = _verdict(found, strict)
    return HeldOut(shape, passed, found.difference, found.ratio, why)


def _verdict(found: Final, strict: bool) -> tuple[bool, str]:
    if found.difference is Difference.NOT_COMPARED or found.ratio is None:
        return False, " ".join(found.evidence) or "It could not be compared."
    times = f"{found.ratio.value:.3f} times what is in use takes"
    if not strict:
        return True, f"It takes {times}; another winner is nearer."
    is_slower = found.difference is Difference.SLOWER or found.ratio.value > 1 + SLACK
    if found.difference in _PASSES and not is_slower:
        return True, f"It takes {times}."
    doubt = "" if found.difference in _PASSES else f" ({found.difference.value})"
    return not is_slower and not doubt, f"It takes {times}{doubt}."
