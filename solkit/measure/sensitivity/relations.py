"""Relations that hold in every draw of the inputs, which a correct kernel may rely on.

A triangular factor is zero above its diagonal in every draw; a symmetric one has equal elements; an
offset table is sorted. A change of the inputs that breaks such a relation proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from solkit.measure.sensitivity.sectors import Region

_DRAWS, _DRAWS_OF_NARROW = 3, 8
"""Draws: of wide numbers chance makes few equal, of those of one byte many."""
_MIXING = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, odd: Knuth, TAOCP 3, 6.4
_SAME_END = 1e-3
"""Share of the range: ends of draws that lie so close together limit the values."""
_BEYOND = 2.0
"""Times the spread of the draws' ends: how far values may leave their range where it is chance."""


@dataclass
class Relations:
    """Relations that hold in one region in every draw.

    Attributes:
        kept: elements that never change: constants, and zeros of the inputs at hand.
        least, most: the range of the values.
        is_fixed: nothing of it can change: sorted, a copy of another input, or equal along a
            dimension.
        is_distinct: no two integers are equal.
        keys: of floating numbers; those with equal keys have equal magnitudes in every draw.
        partners: ``(is_above, region)``: this region is nowhere below (or above) that one.
    """

    kept: torch.Tensor
    least: float
    most: float
    is_fixed: bool = False
    is_distinct: bool = False
    keys: torch.Tensor | None = None
    partners: list[tuple[bool, Region]] = field(default_factory=list)


def relations_of(
    regions: Sequence[Region],
    draw: Callable[[int], Sequence[torch.Tensor]],
    is_time: Callable[[], bool],
) -> list[Relations] | None:
    """Return the relations of each region; ``None`` if there was no time for enough draws.

    Args:
        regions: of the inputs at hand, which are the first draw.
        draw: makes all inputs anew, from the number of a draw.
        is_time: whether there is time for another draw.
    """
    narrow = any(region.flat.element_size() < 4 for region in regions)
    watched = _Watched(regions)
    for number in range(1, _DRAWS_OF_NARROW if narrow else _DRAWS):
        if number >= _DRAWS and not is_time():
            break
        if number > 1 and not is_time():
            return None
        watched.add_draw(draw(number))
    return watched.held_relations()


class _Watched:
    """Watcher of the relations that have held in all draws so far."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._regions = regions
        self._first = [_comparable_values(region.values()) for region in regions]
        self._constant = [torch.ones_like(values, dtype=torch.bool) for values in self._first]
        self._ends = [[_value_ends(values)] for values in self._first]
        self._keys = [_mix_keys(values, None) for values in self._first]
        tensors = [region.tensor for region in regions]
        self._structures = [_find_structures(tensor) for tensor in tensors]
        self._distinct = [_are_distinct(tensor) for tensor in tensors]
        self._copies = {
            pair for pair in _alike_pairs(regions, any_type=True) if _is_copy(tensors, *pair)
        }
        self._ordered = {
            pair for pair in _alike_pairs(regions, any_type=False) if _is_ordered(tensors, *pair)
        }

    def add_draw(self, drawn: Sequence[torch.Tensor]) -> None:
        """Another draw."""
        tensors = [drawn[region.number] for region in self._regions]
        for at, region in enumerate(self._regions):
            values = _comparable_values(region.values_like(tensors[at]))
            self._constant[at] &= values == self._first[at]
            self._ends[at].append(_value_ends(values))
            self._keys[at] = _mix_keys(values, self._keys[at])
            self._structures[at] &= _find_structures(tensors[at])
            self._distinct[at] = self._distinct[at] and _are_distinct(tensors[at])
        self._copies = {pair for pair in self._copies if _is_copy(tensors, *pair)}
        self._ordered = {pair for pair in self._ordered if _is_ordered(tensors, *pair)}

    def held_relations(self) -> list[Relations]:
        """Return the relations that have held, by region."""
        rows = []
        copies = {second for _, second in self._copies}
        for at, region in enumerate(self._regions):
            floating = region.flat.is_floating_point()
            least, most = _range_of_draws(self._ends[at]) if floating else self._ends[at][0]
            kept = self._constant[at]
            if floating:
                kept = kept | (self._first[at] == 0) | ~self._first[at].isfinite()
            relations = Relations(
                kept=kept,
                least=least,
                most=most,
                is_fixed=_fixes_everything(self._structures[at]) or at in copies,
                is_distinct=self._distinct[at],
                keys=self._keys[at] if floating else None,
            )
            for low, high in self._ordered:
                if at in (low, high) and (high, low) not in self._ordered:
                    other = self._regions[high if at == low else low]
                    relations.partners.append((at == high, other))
                    alike = region.tensor.stride() == other.tensor.stride()
                    relations.is_fixed |= not alike or region.places is not None
            rows.append(relations)
        return rows


def _comparable_values(values: torch.Tensor) -> torch.Tensor:
    """Return numbers that can be compared, exactly."""
    if values.is_floating_point():
        return values if values.element_size() >= 2 else values.float()
    return values.to(torch.uint8) if values.dtype is torch.bool else values


def _value_ends(values: torch.Tensor) -> tuple[float, float]:
    if values.is_floating_point():
        values = values[values.isfinite()]
    if not values.numel():
        return 0.0, 0.0
    return float(values.min()), float(values.max())


def _range_of_draws(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the range of all draws, wider where its ends are chance."""
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    width = most - least
    spread_low = max(low for low, _ in ends) - least
    spread_high = most - min(high for _, high in ends)
    if spread_low > _SAME_END * width and least < 0:
        least -= _BEYOND * spread_low
    if spread_high > _SAME_END * width and most > 0:
        most += _BEYOND * spread_high
    return least, most


def _mix_keys(values: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
    """Return a key of each magnitude, in all draws so far."""
    if not values.is_floating_point():
        return values  # no keys are made of integers: chance makes many equal
    bits = values.abs().double().view(torch.int64)
    if before is None:
        return bits * _MIXING
    mixed = (before ^ (before >> 29)) * _MIXING + bits
    return mixed * _MIXING


_UP, _DOWN = "ascending", "descending"


def _find_structures(tensor: torch.Tensor) -> set[tuple[str, int]]:
    """Structures of a whole tensor.

    Equal floating numbers are left out: they change together.
    """
    values = _comparable_values(tensor.detach())
    if values.is_complex() or values.numel() < 2 or not values.dim():
        return set()
    structures: set[tuple[str, int]] = set()
    for dim in {0, values.dim() - 1}:
        before = values.narrow(dim, 0, values.shape[dim] - 1)
        after = values.narrow(dim, 1, values.shape[dim] - 1)
        structures |= {(_UP, dim)} if bool((before <= after).all()) else set()
        structures |= {(_DOWN, dim)} if bool((before >= after).all()) else set()
    if tensor.is_floating_point():
        return structures
    for dim in range(values.dim()):
        if values.shape[dim] > 1 and values.stride(dim):
            equal = bool((values.narrow(dim, 0, 1) == values).all())
            structures |= {("equal", dim)} if equal else set()
    if values.dim() > 1 and values.shape[-1] == values.shape[-2] > 1:
        structures |= {("symmetric", -1)} if torch.equal(values, values.mT) else set()
    return structures


def _fixes_everything(structures: set[tuple[str, int]]) -> bool:
    """Tell whether structures leave nothing to change; what is in both orders is equal."""
    both = {dim for word, dim in structures if word == _UP and (_DOWN, dim) in structures}
    return any(word not in (_UP, _DOWN) or dim not in both for word, dim in structures)


def _are_distinct(tensor: torch.Tensor) -> bool:
    """Tell whether no two integers of a tensor, or of each of its rows, are equal."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool:
        return False
    if not tensor.dim() or tensor.shape[-1] < 2 or tensor.element_size() < 2:
        return False
    ordered = tensor.detach().long().sort(-1).values
    return not bool((ordered[..., 1:] == ordered[..., :-1]).any())


def _alike_pairs(regions: Sequence[Region], any_type: bool) -> list[tuple[int, int]]:
    """Return regions whose tensors have one shape and type: in order, or both ways for an order."""
    pairs = []
    for a, first in enumerate(regions):
        for b, second in enumerate(regions):
            alike = first.tensor.shape == second.tensor.shape
            alike = alike and first.tensor.dtype == second.tensor.dtype
            floating = first.flat.is_floating_point() and not first.tensor.is_complex()
            if alike and (a < b if any_type else a != b and floating):
                pairs.append((a, b))
    return pairs


def _is_copy(tensors: Sequence[torch.Tensor], first: int, second: int) -> bool:
    a, b = tensors[first], tensors[second]
    if a.dtype is torch.bool:
        return bool((a == b).all()) or bool((a != b).all())
    return not a.is_floating_point() and not a.is_complex() and torch.equal(a, b)


def _is_ordered(tensors: Sequence[torch.Tensor], low: int, high: int) -> bool:
    return bool((_comparable_values(tensors[low]) <= _comparable_values(tensors[high])).all())
