"""Formats of numbers in templates; an unknown value is a dash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from solkit.core import InstructionMix, Verdict
from solkit.core.values import finite_or_none
from solkit.report import counters, units

_UNKNOWN = "–"


def _known(print_: Callable[..., str]) -> Callable[..., str]:
    """Return the same function, with a dash for ``None`` and what is not finite."""
    return lambda value, *more: _UNKNOWN if finite_or_none(value) is None else print_(value, *more)


def _count(value: int) -> str:
    """Return a count, with thin spaces between thousands from 10 000."""
    return f"{value:,}".replace(",", "\u2009") if abs(value) >= 10_000 else str(value)


def _rate(value: float, unit: str) -> str:
    return units.format_rate(value, unit.removesuffix("/s"))


def _settings(values: Mapping[str, Any]) -> str:
    return units.format_settings(values).replace(",", " ")


def _verdict_class(verdict: Verdict) -> str:
    """``"bad"`` if failed or impossible, else ``"good"``, ``"doubtful"`` or ``"open"``."""
    if verdict.is_failure or verdict is Verdict.IMPOSSIBLE:
        return "bad"
    classes = {Verdict.CORRECT: "good", Verdict.NOT_MEASURED: "open"}
    return classes.get(verdict, "doubtful")


def _instructions(mix: InstructionMix) -> str:
    """Return the number of instructions and loops, then of each kind, most first."""
    kinds: Counter[str] = Counter()
    for kind_count in mix.counts:
        kinds[kind_count.kind.replace("_", " ")] += kind_count.count
    listed = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    return f"{kinds.total()} instructions, {mix.loops} loops: {listed}"


FILTERS: dict[str, Callable[..., Any]] = {
    "finite": finite_or_none,
    "duration": _known(units.duration),
    "duration4": _known(lambda value: units.duration(value, 4)),
    "signed": _known(units.signed_duration),
    "ratio": _known(units.format_ratio),
    "amount": _known(units.amount),
    "rate": _known(_rate),
    "on_chip": _known(units.binary_bytes),
    "percent": _known(lambda value: f"{100 * value:.3g}\u202f%"),
    "number": _known(lambda value: f"{value:.3g}"),
    "number0": _known(lambda value: f"{value:.0f}"),
    "count": _known(_count),
    "in_unit": _known(counters.format_in_unit),
    "remarks": lambda counted: counters.stall_remarks(
        counted.stalls, counted.achieved_occupancy, counted.missing
    ),
    "instructions": _instructions,
    "place": lambda line: PurePath(line).name or _UNKNOWN,
    "grid": units.format_grid,
    "shape": units.shape_words,
    "settings": _settings,
    "verdict": lambda verdict: verdict.value.replace("_", " "),
    "verdict_class": _verdict_class,
}
