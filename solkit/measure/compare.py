"""Whether a candidate's outputs are the reference's, and where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from solkit.core import Tolerance

__all__ = ["Comparison", "compare", "default_tolerance", "judge"]

_CHUNK = 1 << 24
"""Elements compared at once: wide copies of a whole output could fill the GPU."""

_DEFAULTS = {
    torch.float64: Tolerance(1e-7, 1e-7),
    # KernelBench, src/kernelbench/eval.py, get_tolerance_for_precision: 1e-4 and 1e-2
    torch.float32: Tolerance(1e-4, 1e-4),
    torch.float16: Tolerance(1e-2, 1e-2),
    torch.bfloat16: Tolerance(1e-2, 1e-2),
    torch.complex64: Tolerance(1e-4, 1e-4),
    torch.complex128: Tolerance(1e-7, 1e-7),
    # one step of e4m3's three mantissa bits
    torch.float8_e4m3fn: Tolerance(0.125, 0.125),
    torch.float8_e5m2: Tolerance(0.125, 0.125),
    torch.float8_e4m3fnuz: Tolerance(0.125, 0.125),
    torch.float8_e5m2fnuz: Tolerance(0.125, 0.125),
}
_EXACT = Tolerance(0.0, 0.0)


@dataclass(frozen=True)
class Comparison:
    """How two lists of outputs compare.

    Attributes:
        max_error: largest finite ``|got - want|`` over all outputs of equal shape.
        errors: what differs, a sentence an output; empty where they agree.
    """

    max_error: float
    errors: tuple[str, ...]


def default_tolerance(dtype: torch.dtype) -> Tolerance:
    """The tolerance for outputs of a dtype; exact for integers and bools."""
    return _DEFAULTS.get(dtype, _EXACT)


def judge(
    got: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
    tolerance: Tolerance | None,
    check: Callable[[Any, Any], Any] | None,
) -> Comparison:
    """Compare outputs, by the file's own ``check(got, want)`` where it has one.

    `check` is given tensors (lists of them where there are several outputs). It rejects by
    returning ``False`` or by an ``AssertionError``.
    """
    comparison = compare(got, want, tolerance)
    if check is None:
        return comparison
    single = len(got) == 1 and len(want) == 1
    try:
        accepted = check(got[0], want[0]) if single else check(list(got), list(want))
    except AssertionError as error:
        return Comparison(comparison.max_error, (f"the file's check() rejects it: {error}",))
    if accepted is None or bool(accepted):
        return Comparison(comparison.max_error, ())
    return Comparison(comparison.max_error, (f"the file's check() returned {accepted!r}",))


def compare(
    got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], tolerance: Tolerance | None = None
) -> Comparison:
    """Compare outputs elementwise, in fp32 or, for fp64, in fp64.

    NaN equals NaN only where `want` has it, and infinities must agree in sign.

    Args:
        got: the candidate's outputs.
        want: the reference's, in the same order; shape, dtype and count must agree.
        tolerance: for floating outputs; by default each dtype's own.
    """
    errors: list[str] = []
    max_error = 0.0
    if len(got) != len(want):
        errors.append(f"{len(got)} output(s) where the reference has {len(want)}")
    for index, (mine, theirs) in enumerate(zip(got, want, strict=False)):
        where = f"output {index}"
        if _comparable(mine, theirs):
            limit = tolerance or default_tolerance(theirs.dtype)
            tally = _tally(mine, theirs, limit)
            max_error = max(max_error, tally.max_error)
            if tally.mismatched:
                errors.append(f"{where}: {tally.describe(theirs, limit)}")
        errors += [f"{where}: {difference}" for difference in _form(mine, theirs)]
    return Comparison(max_error, tuple(errors))


def _comparable(got: torch.Tensor, want: torch.Tensor) -> bool:
    return (
        got.shape == want.shape
        and got.device == want.device
        and got.dtype.is_complex == want.dtype.is_complex
    )


def _form(got: torch.Tensor, want: torch.Tensor) -> list[str]:
    facts = [
        ("shape", tuple(got.shape), tuple(want.shape)),
        ("dtype", got.dtype, want.dtype),
        ("device", got.device, want.device),
    ]
    return [f"{what} {g} where the reference has {w}" for what, g, w in facts if g != w]


@dataclass
class _Tally:
    """Mismatches of one output, counted over its chunks; `worst` is an index into it, flat."""

    mismatched: int = 0
    stray_nan: int = 0
    max_error: float = 0.0
    worst: int = 0
    worst_error: float = -1.0
    worst_got: float = 0.0
    worst_want: float = 0.0

    def describe(self, want: torch.Tensor, limit: Tolerance) -> str:
        share = 100 * self.mismatched / want.numel()
        exact = limit.rtol == limit.atol == 0 or not _is_inexact(want)
        beyond = "differ" if exact else f"differ by over {limit.atol:g} + {limit.rtol:g}*|want|"
        place = [int(i) for i in torch.unravel_index(torch.tensor(self.worst), want.shape)]
        nan = f", {self.stray_nan} of them NaN where the reference is not" if self.stray_nan else ""
        return (
            f"{self.mismatched} of {want.numel()} elements ({share:.3g} %) {beyond}{nan}; "
            f"the worst at {place}: got {self.worst_got:.6g}, expected {self.worst_want:.6g}; "
            f"largest error {self.max_error:.4g}"
        )


def _tally(got: torch.Tensor, want: torch.Tensor, limit: Tolerance) -> _Tally:
    mine, theirs = _flat(got), _flat(want)
    per_element = theirs.numel() // max(want.numel(), 1)  # 2 where complex
    tally = _Tally()
    for start in range(0, theirs.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        _add_chunk(tally, mine[part], theirs[part], start, limit)
    tally.worst //= max(per_element, 1)
    tally.mismatched = min(tally.mismatched, want.numel())
    return tally


def _add_chunk(
    tally: _Tally, got: torch.Tensor, want: torch.Tensor, start: int, limit: Tolerance
) -> None:
    wide_got, wide_want = _widen(got), _widen(want)
    # dtypes that have no `==` of their own are told apart by their values
    exact = _is_inexact(got) or _is_inexact(want) or got.dtype != want.dtype
    same = (wide_got == wide_want) if exact else (got == want)
    nan_got, nan_want = wide_got.isnan(), wide_want.isnan()
    agree = same | (nan_got & nan_want)
    error = (wide_got - wide_want).abs().masked_fill(agree, 0.0)
    if _is_inexact(want):
        allowed = limit.atol + limit.rtol * wide_want.abs()
        # an infinite `want` allows anything: it must have agreed already
        agree = agree | ((error <= allowed) & wide_want.isfinite())
    tally.mismatched += int((~agree).sum())
    tally.stray_nan += int((nan_got & ~nan_want).sum())
    finite = error.masked_fill(~error.isfinite(), 0.0)
    tally.max_error = max(tally.max_error, float(finite.max()))
    ranked = error.nan_to_num(nan=math.inf).masked_fill(agree, -1.0)
    place = int(ranked.argmax())
    if float(ranked[place]) > tally.worst_error:
        tally.worst, tally.worst_error = start + place, float(ranked[place])
        tally.worst_got, tally.worst_want = float(wide_got[place]), float(wide_want[place])


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.dtype is torch.float4_e2m1fn_x2:
        plain = plain.contiguous().view(torch.uint8)  # two values a byte; compared as bits
    return plain.reshape(-1)


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    narrow = tensor.dtype.is_floating_point and tensor.dtype is not torch.float64
    return tensor.to(torch.float32 if narrow else torch.float64)
