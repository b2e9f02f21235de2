"""Values that replace those of ``inputs()``.

Each makes one new tensor of the size of the given one and, apart from that, small parts only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from solkit.measure.checking.chunked_tensors import (
    count_elements,
    flat_elements,
    map_parts,
    part_slices,
)

_PLANTED_EVERY = 64
_GOLDEN = (5**0.5 - 1) / 2
_UNEVEN = 2.0**-7
"""Part of a ramp's elements that is chance: one step of bf16."""


@dataclass(frozen=True)
class Distribution:
    """Values that replace those of ``inputs()``."""

    name: str  # of its trials
    # makes them from the given ones, in fp32 (fp64 for fp64), and the target dtype: a new tensor
    values: Callable[[torch.Tensor, torch.dtype], torch.Tensor]
    first_only: bool = False  # only the first floating tensor gets them, the others keep theirs
    infinite: bool = False  # some are infinities
    subnormal: bool = False  # all are below the normal numbers
    is_twin: bool = False  # they are made from the first trial's values instead of fresh ones


def _elementwise(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return values that are made from each element by itself."""
    return lambda tensor, _: map_parts(tensor, lambda part, _: make(part))


def _swap_elements(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    """Swap a few elements: a cache keyed by sums, extremes or samples does not notice.

    One element is drawn from each run of neighbours: to permute all places takes more memory than
    the tensor.
    """
    values = tensor.reshape(-1).clone()
    number = min(max(2, values.numel() // _PLANTED_EVERY), values.numel())
    apart = values.numel() // number
    places = torch.arange(number, device=tensor.device) * apart
    places += torch.randint(apart, (number,), device=tensor.device)
    places = places[torch.randperm(number, device=tensor.device)]
    values[places] = values[places.roll(1)]
    return values.view(tensor.shape)


def _mix_elements(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    """Keep each element, or replace it by the element a drawn distance away."""
    values = flat_elements(tensor)
    size = values.numel()
    if size < 2:
        return tensor
    distance = int(torch.randint(1, size, ()))

    def mix_part(part: torch.Tensor, start: int) -> torch.Tensor:
        first = (start - distance) % size
        wrapped = max(0, first + len(part) - size)
        away = torch.cat((values[first : first + len(part) - wrapped], values[:wrapped]))
        moves = torch.randint(2, part.shape, dtype=torch.bool, device=part.device)
        return torch.where(moves, away, part)

    return map_parts(tensor, mix_part)


def _golden_ramp(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    """Rise from -1 to 1 in steps of the golden ratio, wrapping around: a misplaced element shows.

    No two elements are equal, neighbours are far apart, and roundings have both signs. Each element
    is a little smaller, as by chance: roundings of equal steps add up along a product's inner
    dimension at some sizes, so that tf32 factors were rejected where the author admits them.
    """

    def ramp_part(part: torch.Tensor, start: int) -> torch.Tensor:
        end = start + len(part)
        places = torch.arange(start, end, dtype=torch.float64, device=part.device)
        ramp = places.mul_(_GOLDEN).remainder_(1).mul_(2).sub_(1)
        return ramp.mul_(1 - _UNEVEN * _scattered(start, end, part.device))

    return map_parts(tensor, ramp_part)


def _scattered(start: int, end: int, device: torch.device) -> torch.Tensor:
    """Return numbers from 0 to 1 that look drawn, but follow from an element's place alone."""
    bits = torch.arange(start, end, device=device) * 0x9E3779B1
    bits = (bits ^ bits >> 16) * 0x45D9F3B  # a multiplicative hash
    return ((bits ^ bits >> 13) & 0xFFFFFF).double() / 2**24


def _one_hot_rows(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    """Write a 1 per row, moving from row to row: a contraction picks single elements."""
    width = tensor.shape[-1]

    def hot_part(part: torch.Tensor, start: int) -> torch.Tensor:
        places = torch.arange(start, start + len(part), device=part.device)
        return (3 + 7 * (places // width)) % width == places % width

    return map_parts(tensor, hot_part)


def _scale_subnormal(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Scale below the least normal number of the dtype; proportions stay."""

    def finite_part(part: torch.Tensor) -> torch.Tensor:
        return part.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

    values = flat_elements(tensor)
    ends = [finite_part(values[part]).abs().amax() for part in part_slices(values.numel())]
    largest = torch.stack(ends).amax().clamp(min=1e-30)
    return _elementwise(lambda part: part / largest * (torch.finfo(dtype).tiny / 2))(tensor, dtype)


def _plant_infinities(
    tensor: torch.Tensor, _: torch.dtype, signs: tuple[float, ...]
) -> torch.Tensor:
    """Scatter infinities, at least one."""
    planted = tensor.clone(memory_format=torch.contiguous_format)
    values = planted.view(-1)
    for sign in signs:
        for part in part_slices(values.numel()):
            places = torch.randint(_PLANTED_EVERY, values[part].shape, device=tensor.device) == 0
            values[part].masked_fill_(places, sign * torch.inf)
        values[int(torch.randint(values.numel(), ()))] = sign * torch.inf
    return planted


def _nudge_elements(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    eps = torch.finfo(dtype).eps
    return _elementwise(lambda part: part * (1 + eps * (torch.rand_like(part) - 0.5)))(
        tensor, dtype
    )


DISTRIBUTIONS = (
    # 2^7 takes normal numbers beyond the exponential's range in fp32 (88.7); 2^-10 takes their
    # variance (1e-6) below the epsilons of normalisations; 2^-30 takes them below any threshold
    # that is meant for zeros (1e-8), while fp32 and bf16 still hold their squares
    Distribution("large", _elementwise(lambda x: x * 2.0**7)),
    Distribution("tiny", _elementwise(lambda x: x * 2.0**-10)),
    Distribution("minute", _elementwise(lambda x: x * 2.0**-30)),
    Distribution("one-hot rows", _one_hot_rows, first_only=True),
    Distribution("ramps", _golden_ramp),
    Distribution("repeated values", lambda x, _: torch.full_like(x, 0.75)),  # ties, no variance
    Distribution("negative", _elementwise(lambda x: -x.abs())),
    Distribution(
        "zeros", _elementwise(lambda x: torch.zeros_like(x).copysign(torch.randn_like(x)))
    ),
    Distribution("subnormal", _scale_subnormal, subnormal=True),
    Distribution("infinities", partial(_plant_infinities, signs=(1.0, -1.0)), infinite=True),
    Distribution("negative infinities", partial(_plant_infinities, signs=(-1.0,)), infinite=True),
    Distribution("swapped values", _swap_elements, is_twin=True),
)
"""In order of use; a twin follows its original."""

MIXED = Distribution("mixed values", _mix_elements)
NEAR = Distribution("near", _nudge_elements)
ZEROS = Distribution("zeros", lambda tensor, _: torch.zeros_like(tensor))


def spreads_not(outputs: list[torch.Tensor]) -> bool:
    """No NaN, and of each sign no larger a share of infinities than in the inputs."""
    return not any(
        count_elements(out, lambda part: widen_fp8(part).isnan())
        or count_elements(out, lambda part: widen_fp8(part).isinf())
        > 3 * out.numel() / _PLANTED_EVERY
        for out in outputs
    )


def widen_fp8(out: torch.Tensor) -> torch.Tensor:
    """fp8 has no `isfinite`."""
    return out.float() if out.is_floating_point() and out.element_size() == 1 else out
