"""Quantities as text, in the units that people use."""

from __future__ import annotations

import math
from collections.abc import Mapping

from solkit.core import Value

__all__ = [
    "amount",
    "binary_bytes",
    "duration",
    "grid",
    "rate",
    "ratio",
    "round_amount",
    "settings",
    "shape_words",
    "signed_duration",
]

_DURATIONS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (1e-6, "ns"))
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY_PREFIXES = ((2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def duration(time_ms: float | None, digits: int = 3) -> str:
    """A time in ms as s, ms, µs or ns, e.g. ``"128 µs"``; ``"-"`` for ``None``."""
    if time_ms is None:
        return "-"
    size, unit = next((s, u) for s, u in _DURATIONS if time_ms >= s or u == "ns")
    return f"{_significant(time_ms / size, digits)} {unit}"


def signed_duration(time_ms: float) -> str:
    """A time that is added or saved, e.g. ``"+12.0 µs"``; less than 5 ps is 0."""
    if abs(time_ms) < 5e-9:
        return "0"
    return f"{'−' if time_ms < 0 else '+'}{duration(abs(time_ms))}"


def amount(value: float, unit: str) -> str:
    """An amount with a decimal prefix, e.g. ``"137 GFLOP"``."""
    size, prefix = next((s, p) for s, p in _PREFIXES if value >= s or not p)
    return f"{_significant(value / size)} {prefix}{unit}"


def round_amount(value: float, unit: str) -> str:
    """A round number for an axis, e.g. ``"200 TFLOP/s"``, ``"1 PFLOP/s"``."""
    size, prefix = next((s, p) for s, p in _PREFIXES if value >= s or not p)
    return f"{value / size:g} {prefix}{unit}"


def rate(value: float, unit: str) -> str:
    """A rate in tera-units, as vendors state it, e.g. ``"1070 TFLOP/s"``, ``"3.352 TB/s"``."""
    return f"{value / 1e12:.4g} T{unit}/s"


def binary_bytes(value: int) -> str:
    """On-chip memory in binary units, e.g. ``"96 KiB"``."""
    size, unit = next((s, u) for s, u in _BINARY_PREFIXES if value >= s or s == 1)
    return f"{value / size:.4g} {unit}"


def ratio(value: float) -> str:
    """A factor with three digits, e.g. ``"1.50×"``."""
    return f"{_significant(value)}×"


def grid(blocks: tuple[int, int, int]) -> str:
    """Thread blocks in x, y and z, without trailing ones, e.g. ``"512×4"``."""
    x, y, z = blocks
    return "×".join(str(n) for n in ((x, y, z) if z > 1 else (x, y) if y > 1 else (x,)))


def settings(values: Mapping[str, Value]) -> str:
    """Sizes or parameters as the command line takes them, e.g. ``"M=4096,N=1000"``."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def shape_words(values: Mapping[str, Value]) -> str:
    """A shape in words, e.g. ``"M=4096 N=1000"``."""
    return settings(values).replace(",", " ") or "the file's own inputs"


def _significant(value: float, digits: int = 3) -> str:
    """A number with this many significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return str(value)
    before = len(str(int(abs(value)))) if abs(value) >= 1 else 1
    return f"{value:.{max(0, digits - before)}f}"
