"""Changes of outputs: in any bit, or by more than a tolerance explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import torch

from solkit.core import Tolerance, default_tolerance

__all__ = ["OutputChange", "Outputs"]

_CHUNK = 1 << 24
_MARGIN = 4.0
"""Times the tolerance: a kernel may be off by it on either inputs, and by what rounding explains
(`solkit.measure.checking.tolerance`)."""


@dataclass(frozen=True)
class OutputChange:
    """Difference of outputs from those on the inputs at hand.

    Attributes:
        in_bits: any bit differs.
        by_more: some element differs by more than any correct kernel may be off.
        is_infinite: some element is infinite that was not.
        is_undefined: some element is NaN that was not, or there are no outputs.
    """

    in_bits: bool = False
    by_more: bool = False
    is_infinite: bool = False
    is_undefined: bool = False

    def __or__(self, other: OutputChange) -> OutputChange:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return OutputChange(*(one or another for one, another in pairs))


class Outputs:
    """The outputs on the inputs at hand, to compare others with.

    Args:
        want: the outputs.
        tolerance: the file's own, for floating outputs.
    """

    def __init__(self, want: Sequence[torch.Tensor], tolerance: Tolerance | None) -> None:
        self._want = [_flat(tensor).clone() for tensor in want]
        self._allowed = [_allowed(tensor, tolerance) for tensor in self._want]

    def moved(self, got: Sequence[torch.Tensor]) -> OutputChange:
        """Compare outputs; those of another shape differ by more."""
        if len(got) != len(self._want):
            return OutputChange(True, True)
        change = OutputChange()
        for mine, want, allowed in zip(got, self._want, self._allowed, strict=True):
            flat = _flat(mine)
            if flat.shape != want.shape or flat.dtype != want.dtype:
                return OutputChange(True, True)
            if torch.equal(flat, want):
                continue
            change |= _moved(flat, want, allowed)
        return change


def changed(before: torch.Tensor, after: torch.Tensor, tolerance: Tolerance | None) -> int:
    """Count the elements that differ from what stood there by more than a kernel may be off."""
    old, now = _flat(before), _flat(after)
    limits = _allowed(now, tolerance)
    if limits is None:
        return int((old != now).sum())
    a, b = old.double(), now.double()
    near = (a - b).abs() <= limits.atol + limits.rtol * torch.maximum(a.abs(), b.abs())
    return int((~near & ((a == a) | (b == b)) & (a != b)).sum())


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    plain = plain if plain.layout is torch.strided else plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.dtype is torch.float4_e2m1fn_x2:
        plain = plain.contiguous().view(torch.uint8)
    elif plain.is_floating_point() and plain.element_size() == 1:
        plain = plain.float()  # fp8 has no arithmetic
    return plain.reshape(-1)


def _allowed(want: torch.Tensor, tolerance: Tolerance | None) -> Tolerance | None:
    """Return the largest difference of two outputs that are both right; ``None``: integers."""
    if not want.is_floating_point():
        return None
    default = default_tolerance(want.dtype)
    finite = want[want.isfinite()].double()
    level = math.sqrt(float(finite.square().mean())) if finite.numel() else 0.0
    own = tolerance or Tolerance(default.rtol, default.atol * (level or 1.0))
    least = Tolerance(max(own.rtol, default.rtol), max(own.atol, default.atol * level))
    return Tolerance(min(_MARGIN * least.rtol, 0.5), _MARGIN * least.atol)


def _moved(got: torch.Tensor, want: torch.Tensor, allowed: Tolerance | None) -> OutputChange:
    if allowed is None:
        return OutputChange(True, True)
    change = OutputChange()
    wide = torch.float64 if want.dtype is torch.float64 else torch.float32
    for start in range(0, want.numel(), _CHUNK):
        a, b = (values[start : start + _CHUNK].to(wide) for values in (got, want))
        limit = allowed.atol + allowed.rtol * torch.maximum(a.abs(), b.abs())
        both = a.isfinite() & b.isfinite()
        change |= OutputChange(
            in_bits=bool((a != b).any()),
            by_more=bool(((both & ((a - b).abs() > limit)) | (a.isinf() != b.isinf())).any()),
            is_infinite=bool((a.isinf() & b.isfinite()).any()),
            is_undefined=bool((a.isnan() & ~b.isnan()).any()),
        )
    return change
