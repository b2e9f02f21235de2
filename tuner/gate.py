"""The gate: a winner must hold at shapes that it was not tuned for.

It meets the parameters in use at each held-out shape. It must be correct at all of them, and not
slower at those for which it would be taken: a kernel with winners for several shapes takes the one
of the nearest shape. So one for small sizes need not be fast at large ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from solkit.core import Configuration, Difference, Final, HeldOut, Value
from solkit.tuner.final import Judge, JudgeAll
from solkit.tuner.known import distance

__all__ = ["SLACK", "Winner", "gate", "gates", "nearest"]

SLACK = 0.01
"""How much slower counts as equal, where no difference is shown: the likeness of two builds."""

_PASSES = (Difference.FASTER, Difference.NOT_SHOWN)


@dataclass(frozen=True)
class Winner:
    """A winner of a search.

    Attributes:
        base: the parameters in use.
        rival: the winner.
        held_out: shapes, each with whether the winner must not be slower there.
    """

    base: Configuration
    rival: Configuration
    held_out: Sequence[tuple[Mapping[str, Value], bool]]


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
    winner = Winner(base, rival, held_out)
    return gates([winner], lambda pairs: [judge(*each) for each in pairs])[0]


def gates(winners: Sequence[Winner], judge: JudgeAll) -> list[tuple[HeldOut, ...]]:
    """`gate` of several winners, which are compared together.

    Args:
        winners: each at its held-out shapes.
        judge: compares pairs.

    Raises:
        SolkitError: the bench failed.
    """
    pairs = [
        (replace(each.base, shape=shape), replace(each.rival, shape=shape))
        for each in winners
        for shape, _ in each.held_out
    ]
    found = iter(judge(pairs) if pairs else [])
    return [
        tuple(_held(next(found), shape, strict) for shape, strict in each.held_out)
        for each in winners
    ]


def _held(found: Final, shape: Mapping[str, Value], strict: bool) -> HeldOut:
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
