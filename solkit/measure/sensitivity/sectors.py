"""The memory of the inputs, as sectors of 32 bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

SECTOR_BYTES = 32
"""Least that an SM reads from L2, and L2 from DRAM (CUDA C++ Programming Guide)."""


@dataclass(frozen=True)
class Region:
    """One input's elements, each once, in the order of their addresses.

    Attributes:
        number: the position of its tensor among the inputs.
        flat: the memory that holds them, as a vector of plain numbers.
        places: where in `flat` they are; ``None`` if they are all of it.
        tensor: the input itself.
    """

    number: int
    flat: torch.Tensor
    places: torch.Tensor | None
    tensor: torch.Tensor

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.flat.numel() if self.places is None else self.places.numel()

    @property
    def all_places(self) -> torch.Tensor:
        """Places of the elements in `flat`."""
        if self.places is not None:
            return self.places
        return torch.arange(self.flat.numel(), device=self.flat.device)

    @property
    def bytes(self) -> int:
        """Their size."""
        return self.count * self.flat.element_size()

    def values(self, flat: torch.Tensor | None = None) -> torch.Tensor:
        """Return the elements, of this memory or of another like it."""
        flat = self.flat if flat is None else flat
        return flat if self.places is None else flat[self.places]

    def sector_places(self, element: int) -> torch.Tensor:
        """Return places in `flat` of the elements in one element's sector."""
        size = self.flat.element_size()
        place = element if self.places is None else int(self.places[element])
        per = max(1, SECTOR_BYTES // size)
        shift = (self.flat.data_ptr() % SECTOR_BYTES) // size
        first = (place + shift) // per * per - shift
        span = torch.arange(max(first, 0), min(first + per, self.flat.numel()))
        span = span.to(self.flat.device)
        if self.places is None:
            return span
        positions = torch.searchsorted(self.places, span).clamp(max=self.places.numel() - 1)
        return span[self.places[positions] == span]

    def values_like(self, other: torch.Tensor) -> torch.Tensor:
        """Return the elements of another draw of the same tensor, in the same order."""
        if self.places is None and other.stride() == self.tensor.stride():
            return _plain_numbers(_dense_vector(other))
        copy = torch.empty_strided(
            self.tensor.shape, self.tensor.stride(), dtype=other.dtype, device=other.device
        )
        _without_repeats(copy, copy).copy_(_without_repeats(other, self.tensor))
        span = copy.as_strided((_span_elements(copy),), (1,))
        return self.values(_plain_numbers(span))


def regions_of(tensors: Sequence[torch.Tensor]) -> list[Region]:
    """Return a region for each tensor; of several that overlap, the largest has one."""
    by_storage: dict[int, list[tuple[int, torch.Tensor]]] = defaultdict(list)
    for number, tensor in enumerate(tensors):
        if tensor.layout is torch.strided and tensor.numel() and not tensor.is_conj():
            by_storage[tensor.untyped_storage().data_ptr()].append((number, tensor))
    regions = []
    for sharing in by_storage.values():
        taken: list[Region] = []
        for number, tensor in sorted(sharing, key=lambda item: -item[1].numel()):
            region = _make_region(number, tensor)
            if not any(_may_overlap(region, other) for other in taken):
                taken.append(region)
        regions += taken
    return sorted(regions, key=lambda region: region.number)


def _may_overlap(one: Region, other: Region) -> bool:
    """Tell whether two regions of a storage share an element, or may."""
    (start, end), (low, high) = _address_range(one), _address_range(other)
    if end <= low or high <= start:
        return False
    shift, rest = divmod(low - start, one.flat.element_size())
    if rest or one.flat.dtype != other.flat.dtype:
        return True
    ours, theirs = one.all_places, other.all_places + shift
    return bool(torch.isin(ours, theirs).any())


def _address_range(region: Region) -> tuple[int, int]:
    start = region.flat.data_ptr()
    return start, start + region.flat.numel() * region.flat.element_size()


def _make_region(number: int, tensor: torch.Tensor) -> Region:
    plain = tensor.detach()
    if _fills_span(plain):
        return Region(number, _plain_numbers(_dense_vector(plain)), None, tensor)
    offsets = torch.zeros((), dtype=torch.int64, device=plain.device)
    for size, stride in zip(plain.shape, plain.stride(), strict=True):
        steps = torch.arange(size if stride else 1, device=plain.device) * stride
        offsets = (offsets.unsqueeze(-1) + steps).reshape(-1)
    flat = plain.as_strided((_span_elements(plain),), (1,))
    places = torch.unique(offsets)
    if flat.is_complex():
        places = torch.stack((2 * places, 2 * places + 1), -1).reshape(-1)
    return Region(number, _plain_numbers(flat), places, tensor)


def _fills_span(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's elements fill its span, each once."""
    return _span_elements(tensor) == tensor.numel() and all(
        stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1
    )


def _dense_vector(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def _span_elements(tensor: torch.Tensor) -> int:
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in steps)


def _plain_numbers(flat: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs, packed ones as bytes."""
    if flat.is_complex():
        return torch.view_as_real(flat).reshape(-1)
    if flat.dtype is torch.float4_e2m1fn_x2:
        return flat.view(torch.uint8)
    return flat


def _without_repeats(tensor: torch.Tensor, pattern: torch.Tensor) -> torch.Tensor:
    """Return a view without the repeats along the dimensions in which a tensor is expanded."""
    for dim, (stride, size) in enumerate(zip(pattern.stride(), pattern.shape, strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor
