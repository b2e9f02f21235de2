"""The gate: a winner must hold at shapes that it was not tuned for.

It meets the parameters in use at each held-out shape. It must be correct at all of them, and not
slower at those for which it would be taken: a kernel with winners for several shapes takes the one
of the nearest shape. So one for small sizes need not be fast at large ones. Where it asks the GPU
for what is in use asks for, nothing is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from solkit.core import Configuration, Difference, Final, HeldOut, Value
from solkit.tuner.head_to_head import Judge, JudgeAll, Pair
from solkit.tuner.transfer_prior import shape_distance

SLACK = 0.01
"""Share by which slower counts as equal, if no difference is shown: the likeness of two builds."""

_LARGE = 256
"""Sizes below it stay as they are: a head's dimension, groups, the k of a top-k."""

_MOST_UNNAMED = 8
"""Shapes held out that nobody named: a benchmark's definition may have fifty, each some 10 s."""

_Shape = Mapping[str, Value]

_PASSES = (Difference.FASTER, Difference.NOT_SHOWN)

_SETS = 3
"""Sets of processes of which most decide, where the first says that a winner is slower. Turns do
not average out what differs between two processes that run the same kernel: of 200 comparisons of
kernels with themselves three called one slower or faster, by 0.9 to 1.4 % (docs/lab/measuring.md).
Of three sets two must say so; a winner that is slower is so in each of them."""
_CLEAR = 1.5
"""Ratio from which on one set decides."""
SAME = "Its launches there are the original's: there is nothing to time."
"""Reason of a shape at which nothing is compared."""
_NEW_PROCESSES = "guarded"
"""`Final.how` of comparisons that each start processes of their own."""


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


def spread_shapes(shapes: Sequence[_Shape]) -> list[_Shape]:
    """Return at most so many shapes to hold out: of more, some from smallest to largest."""
    if len(shapes) <= _MOST_UNNAMED:
        return list(shapes)
    by_size = sorted(shapes, key=lambda s: math.prod(v for v in s.values() if type(v) is int))
    step = (len(shapes) - 1) / (_MOST_UNNAMED - 1)
    return [by_size[round(place * step)] for place in range(_MOST_UNNAMED)]


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


def held_where_same(shape: _Shape) -> HeldOut:
    """Return the result of a winner that asks the GPU for what the original asks for.

    What two processes differ by says nothing of it, nor what their autotuners choose.
    """
    return HeldOut(shape, True, Difference.NOT_SHOWN, None, SAME)


def pass_gates(
    winners: Sequence[Winner],
    judge: JudgeAll,
    are_same: Callable[[Configuration, Configuration], bool] = lambda *_: False,
) -> list[tuple[HeldOut, ...]]:
    """Return `pass_gate` of several winners, which are compared together.

    Args:
        winners: each at its held-out shapes.
        judge: compares pairs.
        are_same: whether both of a pair ask the GPU for the same, so that neither is timed.

    Raises:
        SolkitError: the bench failed.
    """
    pairs = [
        (replace(winner.base, shape=shape), replace(winner.rival, shape=shape))
        for winner in winners
        for shape, _ in winner.held_out
    ]
    is_strict = [strict for winner in winners for _, strict in winner.held_out]
    timed = [n for n, pair in enumerate(pairs) if not are_same(*pair)]
    sets = _judge_in_sets([pairs[n] for n in timed], [is_strict[n] for n in timed], judge)
    results = [held_where_same(base.shape) for base, _ in pairs]
    for n, outcomes in zip(timed, sets, strict=True):
        results[n] = _held_out_result(pairs[n], is_strict[n], outcomes)
    in_order = iter(results)
    return [tuple(next(in_order) for _ in winner.held_out) for winner in winners]


def _judge_in_sets(
    pairs: Sequence[Pair], is_strict: Sequence[bool], judge: JudgeAll
) -> list[list[Final]]:
    """Return the outcomes of each pair, in up to three sets of processes."""
    sets = [[outcome] for outcome in (judge(pairs) if pairs else [])]
    for _ in range(_SETS - 1):
        doubtful = [n for n, own in enumerate(sets) if is_strict[n] and _is_open(own)]
        if not doubtful:
            break
        for n, again in zip(doubtful, judge([pairs[n] for n in doubtful]), strict=True):
            sets[n].append(again)
    return sets


def _is_open(outcomes: Sequence[Final]) -> bool:
    """Tell whether another set of processes may show that a winner is not slower."""
    for outcome in outcomes:
        if outcome.how != _NEW_PROCESSES or outcome.ratio is None or outcome.ratio.low > _CLEAR:
            return False  # it would be looked up again, is wrong, or is far slower
    return sum(_fails(outcome) for outcome in outcomes) == 1


def _fails(outcome: Final) -> bool:
    return not _verdict_of_outcome(outcome, strict=True)[0]


def _held_out_result(pair: Pair, strict: bool, outcomes: Sequence[Final]) -> HeldOut:
    """Return what most sets of processes say; a failure to compare is always said."""
    failed = [outcome for outcome in outcomes if _fails(outcome)]
    passed = [outcome for outcome in outcomes if not _fails(outcome)]
    wrong = [outcome for outcome in failed if outcome.ratio is None]
    outcome = (wrong or max(failed, passed, key=len))[0]
    is_passed, why = _verdict_of_outcome(outcome, strict)
    if len(outcomes) > 1 and not wrong:
        why += f" Of {len(outcomes)} sets of processes {len(failed)} say slower."
    return HeldOut(pair[0].shape, is_passed, outcome.difference, outcome.ratio, why)


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
