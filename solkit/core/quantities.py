"""Quantities as text, in the units that people use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

_DURATIONS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (1e-6, "ns"))
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY_PREFIXES = ((2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_FULL = 1000


def duration(time_ms: float | None, digits: int = 3) -> str:
    """Return a time in ms as s, ms, µs or ns, e.g. ``"128 µs"``; ``"-"`` for ``None``."""
    if time_ms is None:
        return "-"
    size, unit = next((s, u) for s, u in _DURATIONS if time_ms >= s or u == "ns")
    return f"{significant(time_ms / size, digits)} {unit}"


def milliseconds(text: str) -> tuple[float, float]:
    """Read a time with its unit, e.g. ``"12us"`` or ``"0.3 ms"``: in ms, and half its last digit.

    Raises:
        ValueError: it is no positive number with a unit.
    """
    parts = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(s|ms|[uµμ]s|ns)\s*", text, re.IGNORECASE)
    sizes = {unit: size for size, unit in _DURATIONS} | {"us": 1e-3, "μs": 1e-3}
    try:
        number = Decimal(parts[1]) if parts else Decimal(0)
    except InvalidOperation:
        number = Decimal(0)
    time_ms = float(number) * sizes[parts[2].lower()] if parts else 0.0
    if parts is None or not 0 < time_ms < math.inf:
        raise ValueError(f"{text!r} is no time above 0 with a unit (s, ms, us, ns), as in 12us")
    half_digit = 0.5 * 10.0 ** int(number.as_tuple().exponent)
    return time_ms, half_digit * sizes[parts[2].lower()]


def interval(low_ms: float | None, high_ms: float | None) -> str:
    """Return two times in the longer's unit, e.g. ``"70.6 to 102 µs"``; empty if one is unknown."""
    if low_ms is None or high_ms is None:
        return ""
    size, unit = next((s, u) for s, u in _DURATIONS if high_ms >= s or u == "ns")
    return f"{significant(low_ms / size)} to {significant(high_ms / size)} {unit}"


def amount(value: float, unit: str) -> str:
    """Return an amount with a decimal prefix, e.g. ``"137 GFLOP"``."""
    size, prefix = next((s, p) for s, p in PREFIXES if value >= s or not p)
    return f"{significant(value / size)} {prefix}{unit}"


def count(number: float, noun: str = "") -> str:
    """Return a number of things, e.g. ``"20.0 k wavefronts"``; small whole numbers in full."""
    if number == int(number) and number < _FULL:
        return f"{int(number)} {noun}".rstrip()
    size, prefix = next((s, p) for s, p in PREFIXES if number >= s or not p)
    return f"{significant(number / size)} {prefix} {noun}".rstrip()


def binary_bytes(value: int) -> str:
    """Return on-chip memory in binary units, e.g. ``"96 KiB"``."""
    size, unit = next((s, u) for s, u in _BINARY_PREFIXES if value >= s or s == 1)
    return f"{value / size:.4g} {unit}"


def significant(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return str(value)
    before = len(str(int(abs(value)))) if abs(value) >= 1 else 1
    return f"{value:.{max(0, digits - before)}f}"


def settings_text(values: Mapping[str, object], none: str = "", separator: str = ", ") -> str:
    """Return sizes or parameters in words, e.g. ``"M=4096, N=1000"``; `none` if there are none."""
    return separator.join(f"{name}={value}" for name, value in values.items()) or none
