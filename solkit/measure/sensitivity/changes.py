"""Changes of one sector that keep the relations of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from solkit.measure.sensitivity.relations import Relations
from solkit.measure.sensitivity.sectors import Region

_CHUNK = 1 << 26
_MAGNITUDES = (4.0, 2.0**6, 2.0**12, 2.0**24, 2.0**48, 2.0**96)
"""Multiples of the typical size of a value: the larger ones show in sums of many terms."""


Write: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""A region's memory, places in it and their values."""


@dataclass(frozen=True)
class Change:
    """New values for some elements.

    Attributes:
        writes: one for each region that changes.
        is_within: whether all values are in the range that the draws have.
    """

    writes: tuple[Write, ...]
    is_within: bool

    def apply(self) -> Change:
        """Write the values; returns the change that undoes it."""
        old = tuple((flat, places, flat[places].clone()) for flat, places, _ in self.writes)
        for flat, places, values in self.writes:
            flat[places] = values
        return Change(old, True)


class Changes:
    """Draws sectors and changes of them.

    Args:
        regions: of all inputs.
        relations: of each region.
        generator: of the places and values.
        samples: how many sectors of each region.

    Attributes:
        elements: for each region, the elements whose sectors are drawn.
    """

    def __init__(
        self,
        regions: Sequence[Region],
        relations: Sequence[Relations],
        generator: torch.Generator,
        samples: int,
    ) -> None:
        self._regions, self._relations, self._generator = regions, relations, generator
        counts = [region.count for region in regions]
        self.elements = [[self._draw_below(count) for _ in range(samples)] for count in counts]
        self._groups = self._group_members()
        self._scales = [_typical_size(region) for region in regions]

    def draw_chance(self) -> float:
        """Return a number in [0, 1)."""
        return float(torch.rand((), generator=self._generator))

    def is_all_zero(self, at: int, element: int) -> bool:
        """Tell whether an element's sector holds nothing but zeros, which stay."""
        region = self._regions[at]
        return region.flat.is_floating_point() and not bool(
            region.flat[region.sector_places(element)].double().any()
        )

    def changes_for(self, at: int, element: int) -> tuple[float, Iterator[Change]]:
        """Return the changes to try on the sector of an element.

        Returns:
            How much the sector counts, and its changes, those within the range first. Where
            elements must change together, each of their sectors counts the same part of one.
        """
        region, relations = self._regions[at], self._relations[at]
        places = region.sector_places(element)
        if relations.is_fixed:
            return 0.0, iter(())
        if not region.flat.is_floating_point():
            free = places[~self._kept_places(at, places)]
            return 1.0, self._integer_changes(at, free)
        related, weight = self._related_elements(at, places)
        if related is None:
            free = places[~self._kept_places(at, places)]
            return 1.0, self._number_changes(at, free)
        return weight, self._related_changes(at, *related)

    # ------------------------------------------------------------------- what changes together

    def _group_members(self) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """Return each floating region's elements with a key of a drawn sector, and the keys."""
        drawn = []
        for at, relations in enumerate(self._relations):
            if relations.keys is not None:
                places = [self._regions[at].sector_places(element) for element in self.elements[at]]
                drawn.append(relations.keys[self._element_order(at, torch.cat(places))])
        if not drawn:
            return []
        drawn_keys: torch.Tensor = torch.cat(drawn).unique()  # type: ignore[no-untyped-call]
        return [
            (number, elements, relations.keys[elements])
            for number, relations in enumerate(self._relations)
            if relations.keys is not None
            for elements in [_elements_with_keys(relations, drawn_keys)]
        ]

    def _kept_places(self, at: int, places: torch.Tensor) -> torch.Tensor:
        return self._relations[at].kept[self._element_order(at, places)]

    def _element_order(self, at: int, places: torch.Tensor) -> torch.Tensor:
        """Return places in `flat` as positions among the elements."""
        own = self._regions[at].places
        return places if own is None else torch.searchsorted(own, places)

    def _related_elements(
        self, at: int, places: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, list[tuple[int, torch.Tensor]]] | None, float]:
        """Return one element of a sector with all that must change with it, if anything must.

        A kernel has to read one of these sectors. The element is drawn, so that for every sector
        the parts that others count of it add up to no more than one.
        """
        free = places[~self._kept_places(at, places)]
        keys = self._relations[at].keys
        assert keys is not None
        mine = keys[self._element_order(at, free)]
        alike = sum(int(torch.isin(group_keys, mine).sum()) for _, _, group_keys in self._groups)
        if alike <= free.numel():
            return None, 1.0
        chosen = free[self._draw_below(free.numel())].reshape(1)
        key = keys[self._element_order(at, chosen)]
        members = [
            (number, elements[group_keys == key]) for number, elements, group_keys in self._groups
        ]
        return (chosen, members), 1.0 / sum(elements.numel() for _, elements in members)

    # --------------------------------------------------------------------------- new values

    def _integer_changes(self, at: int, places: torch.Tensor) -> Iterator[Change]:
        """Swap integers, or take values from other places; flip bools."""
        region, relations = self._regions[at], self._relations[at]
        if not places.numel():
            return
        old = region.flat[places]
        if region.flat.dtype is torch.bool:
            yield self._make_change(at, places, ~old)
            return
        if places.numel() > 1:
            yield self._make_change(at, places, old.roll(1))
        if not relations.is_distinct:
            yield self._make_change(at, places, self._from_elsewhere(at, places))
            least, most = (
                torch.full_like(old, int(end)) for end in (relations.least, relations.most)
            )
            yield self._make_change(at, places, least)
            yield self._make_change(at, places, most)

    def _number_changes(self, at: int, places: torch.Tensor) -> Iterator[Change]:
        if not places.numel():
            return
        relations = self._relations[at]
        yield self._make_change(at, places, self._from_elsewhere(at, places))
        for least_first in (False, True):
            ends = torch.tensor([relations.least, relations.most], dtype=torch.float64)
            pick = (torch.arange(places.numel()) + least_first) % 2
            yield self._make_change(at, places, ends[pick])
        old = self._regions[at].flat[places].double()
        for size in self._large_sizes(at):
            yield self._make_change(
                at, places, self._with_signs(at, old.abs() + 1, size), is_within=False
            )

    def _related_changes(
        self, at: int, chosen: torch.Tensor, members: list[tuple[int, torch.Tensor]]
    ) -> Iterator[Change]:
        """Yield one value and all that must equal or mirror it."""
        relations = self._relations[at]
        old = self._regions[at].flat[chosen].double()
        within = [self._from_elsewhere(at, chosen).double().cpu(), relations.least, relations.most]
        beyond = [self._with_signs(at, old.abs() + 1, size) for size in self._large_sizes(at)]
        for number, value in enumerate([*within, *beyond]):
            ratio = torch.as_tensor(value, dtype=torch.float64, device=old.device) / old
            writes: list[Write] = []
            for region_number, elements in members:
                region = self._regions[region_number]
                places = elements if region.places is None else region.places[elements]
                new = region.flat[places].double() * ratio
                writes += self._make_change(region_number, places, new).writes
            yield Change(tuple(writes), number < len(within))

    def _large_sizes(self, at: int) -> list[float]:
        largest = torch.finfo(self._regions[at].flat.dtype).max / 4
        sizes = [magnitude * self._scales[at] for magnitude in _MAGNITUDES]
        return [size for size in sizes if size < largest] or [largest]

    def _with_signs(self, at: int, sizes: torch.Tensor, factor: float) -> torch.Tensor:
        """Return sizes with signs that the region has, the first one positive if that may be."""
        relations = self._relations[at]
        sign = torch.ones(sizes.numel(), dtype=torch.float64)
        if relations.most <= 0:
            sign = -sign
        elif relations.least < 0 and sign.numel() > 1:
            sign[1::2] = -1.0
        return (sizes / sizes.max() * factor * sign.to(sizes.device)).reshape(-1)

    def _from_elsewhere(self, at: int, places: torch.Tensor) -> torch.Tensor:
        region = self._regions[at]
        picked = [self._draw_below(region.count) for _ in range(places.numel())]
        elements = torch.tensor(picked, device=region.flat.device)
        elements = elements if region.places is None else region.places[elements]
        return region.flat[elements]

    def _make_change(
        self, at: int, places: torch.Tensor, values: torch.Tensor, is_within: bool = True
    ) -> Change:
        flat = self._regions[at].flat
        values = values.to(flat.device)
        for is_above, other in self._relations[at].partners:
            limit = other.flat[places].to(values.dtype)
            values = torch.maximum(values, limit) if is_above else torch.minimum(values, limit)
        if flat.is_floating_point():
            # zeros and infinities stay where they are: a kernel may know their places
            rounded = values.to(flat.dtype).double()  # fp8 has no arithmetic
            stays = (rounded == 0) | ~rounded.isfinite()
            values = torch.where(stays, flat[places].double(), rounded)
        return Change(((flat, places, values.to(flat.dtype)),), is_within)

    def _draw_below(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self._generator))


def _elements_with_keys(relations: Relations, drawn_keys: torch.Tensor) -> torch.Tensor:
    """Return the elements that have one of the wanted keys, which are sorted, and may change."""
    assert relations.keys is not None
    chunks = []
    for start in range(0, relations.keys.numel(), _CHUNK):
        keys = relations.keys[start : start + _CHUNK]
        nearest = torch.searchsorted(drawn_keys, keys).clamp(max=drawn_keys.numel() - 1)
        alike = (drawn_keys[nearest] == keys) & ~relations.kept[start : start + _CHUNK]
        chunks.append(alike.nonzero().reshape(-1) + start)
    return torch.cat(chunks)


def _typical_size(region: Region) -> float:
    """Return the mean size of a region's numbers, at least of the order of 1."""
    if not region.flat.is_floating_point():
        return 1.0
    values = region.values().float().abs()
    values = values[values.isfinite()]
    return max(1.0, float(values.mean())) if values.numel() else 1.0
