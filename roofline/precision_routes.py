"""Precision: the pipe and the number of passes for the contractions of a kind.

A kind is what `solkit.core.OpWork.operations` counts after ``contraction.``: a dtype, and what is
known beyond it of a product of fp32 factors::

    fp32            both factors are wide
    fp32*half       16 bits hold one of them
    fp32~half       whatever it becomes is rounded to 16 bits
    fp32>exp        an exponential makes its errors large (as well fp32*half>exp)
    fp32@9          errors up to 2^-9 leave the results within the file's tolerance, of which the
                    size of the results and `atol` and the matched share are parts (as well fp64@9)

Its route is the fastest that the referee accepts: the largest error of the route, relative to
``|y| + sigma`` (`solkit.measure.checking.tolerance`), is no more than the share c that the rule
allows for computing. With u the unit roundoff of the pipe's dtype::

    one pass        3.6 u sqrt(w / 2)       w: wide factors, 1 or 2
    w + 1 passes    2 w / 2 u² + 2^-17      each wide factor split into a high and a low part

The factors are the largest that were seen over the referee's trials, inner dimensions of 16 to
65,536 and 2^18 to 2^28 results, on an H200 (``bench/precision_routes.py`` draws them again). Tensor
cores truncate their sums, a bias of some 190 units of roundoff over 16,384 products of one sign, so
2^-17 takes sums of at most 512 products in the tensor cores, added up in fp32. fp16 needs factors
scaled by powers of two, rows and columns apart, and a scaled low part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from solkit.core import Bound, Device, PricedRoute, Tolerance, default_tolerance
from solkit.core.rounding import ROUNDOFF, computing_share
from solkit.errors import InputError

PRECISIONS = ("tolerance", "declared", "tf32", "bf16", "fp8")
"""Ways to compute contractions: as the tolerance allows, as declared, or in that dtype."""

TRITON_PRECISIONS = (("tf32", ("tf32",)), ("tf32x3", ("tf32 in 2 passes", "tf32 in 3 passes")))
"""Triton's precisions of products of fp32, the fastest first, and the routes' words for them."""
_NARROW_PIPES = {"tensor.bf16", "tensor.fp16", "tensor.int8", "tensor.fp8"}

# Dtypes that hold another's values exactly (fp8 in fp16, int4 in int8), if it has no pipe.
_WIDER = {"fp4": "fp8", "fp8": "fp16", "int4": "int8", "int8": "fp16"}
_FORCED = {"tf32": ("fp32",), "bf16": ("fp32",), "fp8": ("fp32", "bf16", "fp16")}

_ONE_PASS, _SPLIT, _SUMMED = 3.6, 2.0, 2.0**-17
_SPLITTING = {"bf16": "bfloat16", "fp16": "float16", "tf32": "tf32"}
_SCALED = "scaled by powers of two"
_ADMITTED = (6, 9)
"""Exponents of errors that are marked: enough for one pass in bf16, and in fp16 and tf32."""


@dataclass(frozen=True)
class Route:
    """Route of the contractions of one kind.

    Attributes:
        pipe: the ceiling's name.
        passes: how often their operations run on it.
        how: what it takes beyond that; empty if nothing.
    """

    pipe: str
    passes: int = 1
    how: str = ""

    @property
    def words(self) -> str:
        """The route in words."""
        passes = f" in {self.passes} passes" if self.passes > 1 else ""
        return self.pipe.removeprefix("tensor.") + passes + (f" ({self.how})" if self.how else "")


_STRICT = Route("tensor.tf32", 3)

_SLICES = Route("tensor.int8", 36, "slices of int8, by the literature")
"""fp64 from products of int8 slices: 8 of 7 bits hold its 53, in 8 * 9 / 2 products (Ootomo, Ozaki
and Yokota, "DGEMM on integer matrix multiplication unit", IJHPCA 38(4), 2024). Not run here."""


@dataclass(frozen=True)
class Rule:
    """A precision rule.

    Attributes:
        precision: one of `PRECISIONS`. With ``tolerance``, an fp32 contraction takes the fastest
            route that the referee accepts; an fp64 one that of int8 slices where it is faster.
        tolerance: of the result; ``None`` counts as tight.
        strict: whether nothing but an error as small as three tf32 passes' counts, whatever becomes
            of the product.

    Raises:
        InputError: an unknown precision.
    """

    precision: str
    tolerance: Tolerance | None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(
                f"unknown precision {self.precision!r}; choose one of: {', '.join(PRECISIONS)}"
            )

    def routes(self, operations: Iterable[str], device: Device) -> dict[str, Route]:
        """Return the route of every kind that has contractions among `operations`."""
        kinds = [kind for key in operations if (kind := contraction_dtype(key))]
        return {kind: self._route(kind, device) for kind in kinds}

    def describe(self, routes: Mapping[str, Route]) -> str:
        """Return the rule and what it chose, in words."""
        chosen = [
            f"{_in_words(kind)} as {route.words}"
            for kind, route in routes.items()
            if route.pipe.removeprefix("tensor.") != _dtype_of(kind) or route.passes > 1
        ]
        return f"{self.precision}: {', '.join(chosen)}" if chosen else self.precision

    def considered(self, operations: Iterable[str], device: Device) -> tuple[PricedRoute, ...]:
        """Return all ways for each kind whose precision is chosen, with their errors and rates."""
        kinds = dict.fromkeys(kind for key in operations if (kind := contraction_dtype(key)))
        return tuple(
            PricedRoute(
                _in_words(kind),
                route.words,
                error,
                self._allowed(kind),
                _rate(route, device),
                route == self._route(kind, device),
                route == _STRICT and _dtype_of(kind) == "fp32",
            )
            for kind in kinds
            if self._chooses(kind)
            for route, error in self._ways(kind, device)
        )

    def _chooses(self, kind: str) -> bool:
        return self.precision == "tolerance" and _dtype_of(kind) in ("fp32", "fp64")

    def _route(self, kind: str, device: Device) -> Route:
        """Return the fastest way that the rule allows for contractions of a kind."""
        dtype = _dtype_of(kind)
        if dtype in _FORCED.get(self.precision, ()):
            return _fallback(self.precision, device)
        if not self._chooses(kind):
            return _native(dtype, device)
        allowed, ways = self._allowed(kind), self._ways(kind, device)
        accepted = [route for route, error in ways if error is None or error <= allowed]
        if self.strict:
            accepted = [_native(dtype, device), _STRICT if dtype == "fp32" else _SLICES]
        return max(accepted, key=lambda route: _rate(route, device))

    def _ways(self, kind: str, device: Device) -> list[tuple[Route, float | None]]:
        """Return ways to compute a kind with their errors; ``None`` is that of the dtype itself."""
        own: list[tuple[Route, float | None]] = [(_native(_dtype_of(kind), device), None)]
        slices = [(_SLICES, None)] if _dtype_of(kind) == "fp64" else []
        return [*own, *slices, *_splits(kind)]

    def _allowed(self, kind: str) -> float:
        """Return the error of products of a kind that the referee accepts."""
        if _dtype_of(kind) == "fp64":
            return max(default_tolerance("float64").rtol, _admitted(kind))
        if "~half" in kind:
            return computing_share(ROUNDOFF["bfloat16"], None)
        share = computing_share(ROUNDOFF["float32"], None if ">exp" in kind else self.tolerance)
        return max(share, _admitted(kind))


def _splits(kind: str) -> Iterator[tuple[Route, float]]:
    """Yield ways to compute wide products with narrower factors, and their largest errors."""
    wide = 1 if "*half" in kind else 2
    for dtype, name in _SPLITTING.items():
        scaled = dtype == "fp16" or _dtype_of(kind) == "fp64"  # for their ranges
        u, how = ROUNDOFF[name], _SCALED if scaled else ""
        yield Route(f"tensor.{dtype}", 1, how), _ONE_PASS * u * math.sqrt(wide / 2)
        yield Route(f"tensor.{dtype}", wide + 1, how), _SPLIT * wide / 2 * u**2 + _SUMMED


def _rate(route: Route, device: Device) -> float:
    """Return operations per second; 0 where the device has no such pipe."""
    ceiling = device.ceilings.get(route.pipe)
    return 0.0 if ceiling is None else ceiling.value / route.passes


def contraction_dtype(key: str) -> str:
    """Return the kind of a ``contraction.<kind>``; empty for other kinds of operations."""
    prefix, _, kind = key.partition(".")
    return kind if prefix == "contraction" else ""


def admitted_mark(share: float) -> str:
    """Return the mark of products of which errors up to a share are admitted; empty if it is small.

    There are as many marks as routes of one pass, so that sizes change no more kinds than they
    must.
    """
    return next((f"@{power}" for power in _ADMITTED if share >= 2.0**-power), "")


def _admitted(kind: str) -> float:
    power = kind.partition("@")[2]
    return 2.0 ** -int(power) if power else 0.0


def _dtype_of(kind: str) -> str:
    """Return the declared dtype of a kind."""
    for mark in "*~>@":
        kind = kind.partition(mark)[0]
    return kind


def _in_words(kind: str) -> str:
    words = [_dtype_of(kind)]
    words += ["with a factor of 16 bits"] if "*half" in kind else []
    words += ["rounded to 16 bits"] if "~half" in kind else []
    words += [f"to {_admitted(kind):.2g} by the tolerance"] if "@" in kind else []
    return " ".join([*words, *(["before an exponential"] if ">exp" in kind else [])])


def _native(dtype: str, device: Device) -> Route:
    """Return a dtype's own tensor pipe, else a wider one, else the scalar pipe."""
    if dtype == "fp32":
        return Route("fp32")
    return _fallback(dtype, device)


def _fallback(dtype: str, device: Device) -> Route:
    candidate: str | None = dtype
    while candidate is not None:
        if f"tensor.{candidate}" in device.ceilings:
            return Route(f"tensor.{candidate}")
        candidate = _WIDER.get(candidate)
    return Route("fp64" if dtype == "fp64" else "fp32")


def triton_precisions(bound: Bound) -> Iterator[tuple[str, str]]:
    """Yield Triton's precisions that each product of a problem admits, and the routes' words."""
    kinds = {route.kind for route in bound.routes}
    narrow = not kinds and bool(_NARROW_PIPES & bound.flops_by_pipe.keys())
    for precision, words in TRITON_PRECISIONS:
        priced = [r for r in bound.routes if r.route in words and r.is_accepted and r.rate]
        if narrow or (kinds and {route.kind for route in priced} == kinds):
            yield precision, words[-1]
