"""Practice: finalists of a search beside the original, before one of them goes to the gate.

The fastest variant may be fast at the shape of the search alone. So finalists are timed, beside
the original, at practice shapes, which are neither the search's nor the gate's::

    archive ─► finalists, the fastest first ─► slower than the original somewhere? ─ no ─► the gate
                          ▲                                     │ yes
                          └───────────── the next one ──────────┘

One that is clearly faster than the first that holds is taken all the same if its file can leave
what it loses to the original; also one that is only faster, if the first that holds was timed at no
practice shape. If each is slower somewhere, the one that loses least goes to the gate. The gate
alone decides whether it replaces the original.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from solkit.core import Bred, Finalist, Practised, Value, Verdict
from solkit.tuner.evolution.population_archive import Archive

if TYPE_CHECKING:
    from solkit.tuner.evolution.variant_evaluator import VariantOutcome

Shape = Mapping[str, Value]
Measure = Callable[[Bred, Shape, int], "VariantOutcome"]
"""Times a variant at a shape, for the first time (0) or the second (1)."""

MOST_SHAPES = 3
"""Shapes to practise at."""
_MOST_FINALISTS = 4
_SLACK, _CLEAR = 0.02, 0.1
"""A ratio of two single times that is further above 1 is a loss if a second look agrees; from the
larger on without one. Of 5,898 configurations that the shipped H100 set holds twice, 16 % differ by
more than 2 %, and 0.3 % by more than 10 %."""
_WORTH = 1.05
"""A finalist that leaves some shapes to the original has to be so many times as fast as one that
holds. The shape of the search counts first, but noise shall not choose. The number is a choice: at
1.1 one of 46 recorded searches lost 8 %."""
_LARGE = 256
"""Sizes below it stay as they are: a head's dimension, groups, the k of a top-k."""

_SAYS_NOTHING = (Verdict.NOT_MEASURED, Verdict.UNSTABLE, Verdict.DEGENERATE_PROBLEM)
"""Verdicts that speak neither for nor against a finalist."""


def shapes_like(shape: Shape) -> list[Shape]:
    """Return shapes that differ from one in kind, the most telling first; no two alike.

    Uneven ones; ones whose longest side is short and whose shortest is long; and the reverse. Those
    that follow are tamer, for kernels that accept few sizes. Most have fewer elements.
    """
    every = {name: value for name, value in shape.items() if type(value) is int and value > 1}
    least = min(_LARGE, max(every.values(), default=0))
    sizes = sorted((n for n, value in every.items() if value >= least), key=lambda n: -every[n])
    if not sizes:
        return []
    first, last = sizes[0], sizes[-1]
    changes = [
        {name: 5 * every[name] // 8 | 1 for name in sizes},
        {last: 4 * every[last], first: every[first] // 8},
        {last: every[last] // 8, first: 2 * every[first]},
        {name: every[name] // 2 for name in sizes},
        *({name: every[name] // 2} for name in sizes),
    ]
    shapes: list[Shape] = []
    for change in changes:
        varied = {**shape, **change}
        if min(change.values()) > 0 and varied != shape and varied not in shapes:
            shapes.append(varied)
    return shapes


def finalists(archive: Archive, first_ms: float | None) -> list[Bred]:
    """Return variants that may go to the gate, the fastest first; empty if nothing was timed.

    The best one always is among them. The others are faster than the original beyond noise; the
    fastest of each behaviour come first, since variants that resemble each other fail together.

    Args:
        archive: of the search.
        first_ms: what the original takes with the parameters in use; ``None`` if it fails.
    """
    timed = sorted((bred for bred in archive if bred.time_ms is not None), key=_timed_ms)
    faster = [e for e in timed if first_ms is None or _timed_ms(e) * (1 + _SLACK) < first_ms]
    elites = {elite.variant.id for elite in archive.behaviour_elites()}
    faster.sort(key=lambda bred: bred.variant.id not in elites)
    distinct = {bred.variant.id: bred for bred in (*timed[:1], *faster)}
    return sorted(list(distinct.values())[:_MOST_FINALISTS], key=_timed_ms)


def practise_finalists(
    original: Bred,
    rivals: Sequence[Bred],
    shapes: Iterable[Shape],
    measure: Measure,
    alone: Collection[str] = (),
) -> tuple[Finalist, ...]:
    """Time finalists at practice shapes until one is not slower than the original at any.

    A shape says nothing where the original fails, or where either was not measured.

    Args:
        original: with the parameters in use.
        rivals: the finalists, in the order in which they are tried.
        shapes: to practise at.
        measure: times a variant with its parameters at a shape, for the first time (0) or the
            second (1). It is asked for the original again for each finalist.
        alone: ids of the variants that fit the search's shape alone, and launch what the original
            does at any other: nothing is measured of them.

    Returns:
        Those that were tried; one of them is taken.
    """
    order = list(shapes)
    finalists: list[Finalist] = []
    for rival in rivals:
        at = [] if rival.variant.id in alone else order
        tried = _practise_finalist(original, rival, at, measure)
        finalists.append(tried)
        if not is_slower(tried.loss):
            break
        worst = tried.practised[-1].shape  # the next one may well be slower there, too
        order.sort(key=lambda shape: shape is not worst)
    return take_least_loss(finalists)


def take_least_loss(finalists: Sequence[Finalist]) -> tuple[Finalist, ...]:
    """Return finalists, of which the one that loses least is taken as it is."""
    least = min(finalists, key=lambda finalist: finalist.loss, default=None)
    return tuple(replace(finalist, taken=finalist is least) for finalist in finalists)


def take_far_faster(
    original: Bred,
    rivals: Sequence[Bred],
    finalists: Sequence[Finalist],
    shapes: Sequence[Shape],
    measure: Measure,
    may_leave: Callable[[Finalist], bool],
) -> tuple[Finalist, ...]:
    """Return finalists, of which one that leaves shapes to the original is taken if it pays.

    It is clearly faster than any that holds everywhere, and right at all practice shapes. Than one
    that was not seen to hold anywhere it is faster.

    Args:
        original: as for `practise_finalists`.
        rivals: as for `practise_finalists`.
        finalists: those of them that were tried, in the same order.
        shapes: to practise at.
        measure: as for `practise_finalists`.
        may_leave: whether a finalist can leave the shapes at which it was slower to the original.
    """
    for place, rival in _far_faster(rivals, finalists):
        if not may_leave(finalists[place]):
            continue
        whole = _practise_finalist(original, rival, shapes, measure, is_whole=True)
        if math.isfinite(whole.loss) and may_leave(whole):
            others = [replace(finalist, taken=False) for finalist in finalists]
            return *others[:place], replace(whole, taken=True), *others[place + 1 :]
    return tuple(finalists)


def _far_faster(
    rivals: Sequence[Bred], finalists: Sequence[Finalist]
) -> Iterator[tuple[int, Bred]]:
    """Yield finalists that are clearly faster than any that holds everywhere, the fastest first."""
    limit_ms = min(
        (
            finalist.time_ms / (_WORTH if finalist.practised else 1.0)
            for finalist in finalists
            if not is_slower(finalist.loss)
        ),
        default=math.inf,
    )
    for place, (rival, finalist) in enumerate(zip(rivals, finalists, strict=False)):
        if finalist.time_ms < limit_ms and math.isfinite(finalist.loss):
            yield place, rival


def _practise_finalist(
    original: Bred, rival: Bred, shapes: Sequence[Shape], measure: Measure, is_whole: bool = False
) -> Finalist:
    """Return a finalist at practice shapes, up to the first at which it is slower, or at all."""
    practised: list[Practised] = []
    for shape in shapes:
        if (outcome := _compare_at_shape(original, rival, shape, measure)) is None:
            continue
        practised.append(outcome)
        if outcome.ratio is None or (is_slower(outcome.loss) and not is_whole):
            break
    return Finalist(rival.variant.id, rival.params, _timed_ms(rival), tuple(practised))


def _compare_at_shape(
    original: Bred, rival: Bred, shape: Shape, measure: Measure
) -> Practised | None:
    """Return a finalist beside the original at a shape; ``None`` if that says nothing."""
    base_ms = measure(original, shape, 0).time_ms
    if base_ms is None:
        return None
    outcome = measure(rival, shape, 0)
    if outcome.verdict in _SAYS_NOTHING:
        return None
    if outcome.time_ms is None:
        return Practised(shape, outcome.verdict, None)
    ratio = outcome.time_ms / base_ms
    if 1 + _SLACK < ratio < 1 + _CLEAR:
        again_ms, base_again_ms = (measure(e, shape, 1).time_ms for e in (rival, original))
        if again_ms is not None and base_again_ms is not None:  # what disturbs only adds time
            ratio = min(outcome.time_ms, again_ms) / min(base_ms, base_again_ms)
    return Practised(shape, outcome.verdict, ratio)


def is_slower(loss: float) -> bool:
    """Tell whether a ratio to the original's time is above 1 beyond noise."""
    return loss > 1 + _SLACK


def _timed_ms(bred: Bred) -> float:
    assert bred.time_ms is not None
    return bred.time_ms
