"""The gate: a winner must hold at shapes that it was not tuned for.

It meets the parameters in use at each held-out shape. It must be correct at all of them, and not
slower at those for which it would be taken: a kernel with winners for several shapes takes the one
of the nearest shape. So one for small sizes need not be fast at large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from solkit.core import Configuration, Difference, Final, HeldOut, Value
from solkit.tuner.head_to_head import Judge, JudgeAll
from solkit.tuner.transfer_prior import shape_distance

__all__ = ["SLACK", "Winner", "nearest_shape", "pass_gate", "pass_gates", "smaller_shapes"]

SLACK = 0.01
"""Share by which slower counts as equal, if no difference is shown: the likeness of two builds."""

_LARGE = 256
"""Sizes below it stay as they are: a head's dimension, groups, the k of a top-k."""

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


def nearest_shape(shape: Mapping[str, Value], shapes: Sequence[Mapping[str, Value]]) -> int:
    """Return the place of the nearest shape, in doublings of sizes; the first of equal ones."""
    return min(range(len(shapes)), key=lambda place: shape_distance(shapes[place], shape))


def smaller_shapes(shape: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
    """Yield smaller shapes of the same kind, each with the longest size of the last one halved."""
    smaller = dict(shape)
    while True:
        sizes = {name: size for name, size in smaller.items() if type(size) is int}
        longest = max(sizes, key=lambda name: sizes[name], default=None)
        if longest is None or sizes[longest] < 2 * _LARGE:
            return
        smaller[longest] = sizes[longest] // 2
        yield dict(smaller)


def pass_gate(
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
    return pass_gates([winner], lambda pairs: [judge(*pair) for pair in pairs])[0]


def pass_gates(winners: Sequence[Winner], judge: JudgeAll) -> list[tuple[HeldOut, ...]]:
    """Return `pass_gate` of several winners, which are compared together.

    Args:
        winners: each at its held-out shapes.
        judge: compares pairs.

    Raises:
        SolkitError: the bench failed.
    """
    pairs = [
        (replace(winner.base, shape=shape), replace(winner.rival, shape=shape))
        for winner in winners
        for shape, _ in winner.held_out
    ]
    outcomes = iter(judge(pairs) if pairs else [])
    return [
        tuple(_held_out_result(next(outcomes), shape, strict) for shape, strict in winner.held_out)
        for winner in winners
    ]


def _held_out_result(outcome: Final, shape: Mapping[str, Value], strict: bool) -> HeldOut:
    passed, why = _verdict_of_outcome(outcome, strict)
    return HeldOut(shape, passed, outcome.difference, outcome.ratio, why)


def _verdict_of_outcome(outcome: Final, strict: bool) -> tuple[bool, str]:
    if outcome.difference is Difference.NOT_COMPARED or outcome.ratio is None:
        return False, " ".join(outcome.evidence) or "It could not be compared."
    times = f"{outcome.ratio.value:.3f} times what is in use takes"
    if not strict:
        return True, f"It takes {times}; another winner is nearer."
    is_slower = outcome.difference is Difference.SLOWER or outcome.ratio.value > 1 + SLACK
    if outcome.difference in _PASSES and not is_slower:
        return True, f"It takes {times}."
    doubt = "" if outcome.difference in _PASSES else f" ({outcome.difference.value})"
    return not is_slower and not doubt, f"It takes {times}{doubt}."
