"""Figures of public timings: as a table, and as the part ``on`` of ``solkit.evaluate/1``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.pipeline.public_figures import ForecastFigures, PublicFigures

__all__ = ["PublicTimings", "public_timings_json", "render_public_timings"]


@dataclass(frozen=True)
class PublicTimings:
    """Result of `solkit evaluate --on`.

    Attributes:
        sources: the files.
        figures: by GPU, and by operation on it.
        reasons: why rows were not rebuilt, and how many have each reason.
        faults: what could not be read, a sentence each.
    """

    sources: Sequence[str]
    figures: Sequence[PublicFigures]
    reasons: Mapping[str, int]
    faults: Sequence[str] = ()


def public_timings_json(timings: PublicTimings) -> dict[str, Any]:
    """Return the figures as JSON values; shares and errors are fractions, unknown ones null."""
    return {
        "sources": list(timings.sources),
        "groups": [_group_json(figures) for figures in timings.figures],
        "not_rebuilt": dict(timings.reasons),
        "faults": list(timings.faults),
    }


def _group_json(figures: PublicFigures) -> dict[str, Any]:
    return {
        "device": figures.device,
        "family": figures.family or None,
        "rows": figures.rows,
        "bounded": figures.bounded,
        "gap_median": _finite_or_none(figures.gap_median),
        "gap_p10": _finite_or_none(figures.gap_p10),
        "kernel_model": _forecast_json(figures.model),
        "surrogate": _forecast_json(figures.surrogate),
    }


def _forecast_json(figures: ForecastFigures) -> dict[str, Any]:
    return {
        "rows": figures.rows,
        "time_error_median": _finite_or_none(figures.error_median),
        "ratio_median": _finite_or_none(figures.ratio_median),
        "spearman": _finite_or_none(figures.spearman),
        "coverage_90": _finite_or_none(figures.coverage_90),
    }


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def render_public_timings(timings: PublicTimings, console: Console) -> None:
    """Print a table, and why rows were not rebuilt."""
    table = Table(title=", ".join(timings.sources), title_justify="left")
    heads = (
        *("GPU", "operation", "rows", "bounded", "gap p10/median"),
        *("rebuilt", "kernel model: error, %", "ratio", "Spearman"),
        *("own kernels", "surrogate: error, %", "ratio", "Spearman", "in 90 %, %"),
    )
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < 2 else "right", overflow="fold")
    for figures in timings.figures:
        model, surrogate = figures.model, figures.surrogate
        table.add_row(
            "" if figures.family else figures.device,
            figures.family or "all",
            f"{figures.rows:,}",
            f"{figures.bounded:,}",
            f"{figures.gap_p10:.2f}/{figures.gap_median:.2f}" if figures.bounded else "",
            *_forecast_cells(model),
            *_forecast_cells(surrogate),
            _format_number(100 * surrogate.coverage_90, ".0f"),
        )
    console.print(table)
    for reason, number in timings.reasons.items():
        console.print(f"Not rebuilt: {number:,} rows: {reason}")
    for fault in timings.faults:
        console.print(f"Not read: {fault}")


def _forecast_cells(figures: ForecastFigures) -> tuple[str, str, str, str]:
    if not figures.rows:
        return "", "", "", ""
    return (
        f"{figures.rows:,}",
        f"{100 * figures.error_median:.0f}",
        f"{figures.ratio_median:.2f}",
        _format_number(figures.spearman, ".2f"),
    )


def _format_number(value: float, spec: str) -> str:
    return format(value, spec) if math.isfinite(value) else ""
