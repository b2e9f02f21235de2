"""Quantities as text, in the units that people use."""

from __future__ import annotations

from collections.abc import Mapping

from solkit.core import Value
from solkit.core.quantities import (
    PREFIXES,
    amount,
    binary_bytes,
    duration,
    interval,
    settings_text,
    significant,
)

__all__ = [
    "TELLING",
    "amount",
    "binary_bytes",
    "duration",
    "format_grid",
    "format_rate",
    "format_ratio",
    "format_settings",
    "interval",
    "round_amount",
    "shape_words",
    "signed_duration",
]


TELLING = 0.005
"""A factor closer to 1 rounds to 1.00× and is not shown."""


def signed_duration(time_ms: float) -> str:
    """Return a time that is added or saved, e.g. ``"+12.0 µs"``; less than 5 ps is 0."""
    if abs(time_ms) < 5e-9:
        return "0"
    return f"{'−' if time_ms < 0 else '+'}{duration(abs(time_ms))}"


def round_amount(value: float, unit: str) -> str:
    """Return a round number for an axis, e.g. ``"200 TFLOP/s"``, ``"1 PFLOP/s"``."""
    size, prefix = next((s, p) for s, p in PREFIXES if value >= s or not p)
    return f"{value / size:g} {prefix}{unit}"


def format_rate(value: float, unit: str) -> str:
    """Write a rate in tera-units, as vendors do, e.g. ``"1070 TFLOP/s"``, ``"3.352 TB/s"``."""
    return f"{value / 1e12:.4g} T{unit}/s"


def format_ratio(value: float) -> str:
    """Return a factor with three digits, e.g. ``"1.50×"``."""
    return f"{significant(value)}×"


def format_grid(blocks: tuple[int, int, int]) -> str:
    """Thread blocks in x, y and z, without trailing ones, e.g. ``"512×4"``."""
    x, y, z = blocks
    return "×".join(str(n) for n in ((x, y, z) if z > 1 else (x, y) if y > 1 else (x,)))


def format_settings(values: Mapping[str, Value]) -> str:
    """Return sizes or parameters as the command line takes them, e.g. ``"M=4096,N=1000"``."""
    return settings_text(values, separator=",")


def shape_words(values: Mapping[str, Value]) -> str:
    """Return a shape in words, e.g. ``"M=4096 N=1000"``."""
    return format_settings(values).replace(",", " ") or "the file's own inputs"
