"""Drawing the inputs of timed calls again.

A kernel can keep answers on the device, where no look at the host shows them. So no timed call gets
values that an earlier call has seen. Three ways, the first that applies:

===== ========================================= ==================================================
kind  what changes                              where
===== ========================================= ==================================================
drawn all that ``inputs()`` draws               it takes at most 20 ms
mixed floating values move within their tensors ``inputs()`` is slow, or gives the same for every
                                                seed; values may move
drawn as above, before fewer calls              ``inputs()`` is slow
same  nothing                                   else
===== ========================================= ==================================================

Values may move if the candidate was checked on inputs with swapped values, which the reference has
to allow, and if integers are the same in every draw. Zeros, symmetric matrices and
sorted orders that every draw has stay (`solkit.measure.checking.trials`). Where inputs are related
in other ways that show, nothing moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import torch

from solkit.kernelfiles import Workload
from solkit.measure.checking.chunked_tensors import count_elements
from solkit.measure.checking.inputs import is_unchanged

SLOW_S = 0.02
"""Limit for one draw: with some seventy turns it would add more than a second to a measurement."""

_TIE, _SURE_TIES, _MOST_SORTED = 2.0**-27, 8.0, 1 << 26
"""The chance that two random floats of 32 bits or fewer are equal, at the least; ties that would be
expected of a tensor in which there are none; and elements that are sorted to see that."""

Draw = Callable[[int], Workload]
"""Draws inputs from a seed."""


@dataclass(frozen=True)
class Draws:
    """A way of drawing inputs anew.

    Attributes:
        kind: ``"drawn"``, ``"mixed"`` or ``"same"``.
        cost_s: seconds for one draw.
        of: draws inputs from a seed.
    """

    kind: str
    cost_s: float
    of: Draw


def choose_draws(
    usual: Workload,
    draw: Draw,
    mix: Draw | None,
    varies: bool,
    seeds: Callable[[], int],
    synchronize: Callable[[], None],
) -> Draws:
    """Return the best way for a problem.

    Args:
        usual: inputs that were drawn before.
        draw: calls ``inputs()``.
        mix: moves the values of the usual inputs; ``None`` if they may not move.
        varies: whether ``inputs()`` gives other values for another seed.
        seeds: gives a new seed.
        synchronize: waits for the device.
    """

    def time_draw(way: Draw) -> tuple[Workload, float]:
        synchronize()
        start = time.perf_counter()
        workload = way(seeds())
        synchronize()
        return workload, time.perf_counter() - start

    drawn_s = time_draw(draw)[1] if varies else 0.0
    if varies and drawn_s <= SLOW_S:
        return Draws("drawn", drawn_s, draw)
    if mix is not None:
        mixed, mixed_s = time_draw(mix)
        if not is_unchanged(usual, mixed) and not (varies and mixed_s > drawn_s):
            return Draws("mixed", mixed_s, mix)
    return Draws("drawn", drawn_s, draw) if varies else Draws("same", 0.0, lambda _: usual)


def draws_vary(one: Workload, other: Workload) -> bool:
    """Tell whether two draws have different values, scalars and sizes included."""
    pair = one.tensors(), other.tensors()
    if [_tensor_form(leaf) for leaf in pair[0]] != [_tensor_form(leaf) for leaf in pair[1]]:
        return True
    return not is_unchanged(one, other)


def values_may_move(draws: Sequence[Workload]) -> bool:
    """Tell whether floating values of these draws may move, as far as two draws can show.

    All else must be the same in each, and no relation between elements, other than those that
    `solkit.measure.checking.trials` keeps, may hold in all of them.
    """
    first, *others = [draw.tensors() for draw in draws]
    if not others or any(len(other) != len(first) for other in others):
        return False
    for leaves in zip(first, *others, strict=True):
        if not all(_tensor_form(leaf) == _tensor_form(leaves[0]) for leaf in leaves):
            return False
        if not leaves[0].is_floating_point():
            same = leaves[0].layout is torch.strided
            if not (same and all(torch.equal(leaf, leaves[0]) for leaf in leaves)):
                return False
        elif all(map(_is_bound_to_places, leaves)):
            return False
    floats = [[leaf for leaf in leaves if leaf.is_floating_point()] for leaves in (first, *others)]
    return not any(
        all(_are_ordered(leaves[low], leaves[high]) for leaves in floats)
        for low, high in permutations(range(len(floats[0])), 2)
    )


def _tensor_form(leaf: torch.Tensor) -> tuple[object, ...]:
    return leaf.shape, leaf.dtype, leaf.layout


def _is_bound_to_places(leaf: torch.Tensor) -> bool:
    """Tell whether elements are bound to their places: infinities, or equal along a dimension.

    Or all different along one, such as a permutation in each row: moved values would tie.
    """
    if leaf.layout is not torch.strided:
        return True
    values = _comparable(leaf)
    if not values.numel():
        return False
    if count_elements(values, lambda part: ~part.isfinite()):
        return True
    return any(
        size > 1 and stride and bool((values.narrow(dim, 0, 1) == values).all())
        for dim, (size, stride) in enumerate(zip(values.shape, values.stride(), strict=True))
    ) or any(_never_ties(values, dim) for dim in range(values.dim()))


def _never_ties(values: torch.Tensor, dim: int) -> bool:
    """Tell whether no two elements along a dimension are equal, where random ones would be."""
    pairs, last = values.numel() * (values.shape[dim] - 1) / 2, values.shape[dim] - 1
    if pairs * _TIE < _SURE_TIES or values.numel() > _MOST_SORTED or values.element_size() > 4:
        return False
    ordered = values.sort(dim).values
    return not bool((ordered.narrow(dim, 1, last) == ordered.narrow(dim, 0, last)).any())


def _are_ordered(low: torch.Tensor, high: torch.Tensor) -> bool:
    alike = (
        _tensor_form(low) == _tensor_form(high) and low.layout is torch.strided and low.numel() > 1
    )
    if not alike or low.data_ptr() == high.data_ptr():
        return False  # what shares memory moves together
    return bool((_comparable(low) <= _comparable(high)).all())


def _comparable(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.detach().float() if leaf.element_size() == 1 else leaf.detach()
