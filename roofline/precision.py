"""Precision: the pipe and the number of passes for the contractions of a dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from solkit.core import Device, Tolerance
from solkit.errors import InputError

__all__ = ["PRECISIONS", "Route", "Rule", "contraction_dtype"]

PRECISIONS = ("tolerance", "declared", "tf32", "bf16", "fp8")
"""Ways to compute contractions: as the tolerance allows, as declared, or in that dtype."""

# Dtypes that hold another's values exactly (fp8 in fp16, int4 in int8), if it has no pipe.
_WIDER = {"fp4": "fp8", "fp8": "fp16", "int4": "int8", "int8": "fp16"}
_FORCED = {"tf32": ("fp32",), "bf16": ("fp32",), "fp8": ("fp32", "bf16", "fp16")}


@dataclass(frozen=True)
class Route:
    """Route of the contractions of one dtype: a pipe, and how many passes they take."""

    pipe: str
    passes: int


@dataclass(frozen=True)
class Rule:
    """A precision rule.

    Attributes:
        precision: one of `PRECISIONS`. With ``tolerance``, an fp32 contraction counts as tf32 if
            the tolerance is 1e-3 or looser, else as three tf32 passes or fp32, whichever is faster
            (Ootomo and Yokota, IJHPCA 36(4), 2022, recover fp32 accuracy this way).
        tolerance: of the result; ``None`` counts as tight.

    Raises:
        InputError: an unknown precision.
    """

    precision: str
    tolerance: Tolerance | None

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(
                f"unknown precision {self.precision!r}; choose one of: {', '.join(PRECISIONS)}"
            )

    def routes(self, operations: Iterable[str], device: Device) -> dict[str, Route]:
        """Return the route of every dtype that has contractions among `operations`."""
        dtypes = [dtype for key in operations if (dtype := contraction_dtype(key))]
        return {dtype: self._route(dtype, device) for dtype in dtypes}

    def describe(self, routes: Mapping[str, Route]) -> str:
        """Return the rule and what it chose, in words."""
        chosen = [
            f"{dtype} as {route.pipe.removeprefix('tensor.')}"
            + (f" in {route.passes} passes" if route.passes > 1 else "")
            for dtype, route in routes.items()
            if route.pipe.removeprefix("tensor.") != dtype or route.passes > 1
        ]
        return f"{self.precision}: {', '.join(chosen)}" if chosen else self.precision

    def _route(self, dtype: str, device: Device) -> Route:
        """Return the fastest way that the rule allows for contractions of `dtype`."""
        if dtype in _FORCED.get(self.precision, ()):
            return _fallback(self.precision, device)
        if dtype != "fp32" or self.precision != "tolerance":
            return _native(dtype, device)
        loose = self.tolerance is not None and self.tolerance.allows_tf32
        passes = 1 if loose else 3
        tf32, fp32 = device.ceilings.get("tensor.tf32"), device.ceilings["fp32"]
        if tf32 is None or tf32.value / passes < fp32.value:
            return Route("fp32", 1)
        return Route("tensor.tf32", passes)


def contraction_dtype(key: str) -> str:
    """Return the dtype of a ``contraction.<dtype>``; empty for other kinds of operations."""
    kind, _, dtype = key.partition(".")
    return dtype if kind == "contraction" else ""


def _native(dtype: str, device: Device) -> Route:
    """Return a dtype's own tensor pipe, else a wider one, else the scalar pipe."""
    if dtype == "fp32":
        return Route("fp32", 1)
    return _fallback(dtype, device)


def _fallback(dtype: str, device: Device) -> Route:
    candidate: str | None = dtype
    while candidate is not None:
        if f"tensor.{candidate}" in device.ceilings:
            return Route(f"tensor.{candidate}", 1)
        candidate = _WIDER.get(candidate)
    return Route("fp64" if dtype == "fp64" else "fp32", 1)
