"""Figures of public timings: as a table, and as the part ``on`` of ``solkit.evaluate/1``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.core.values import finite_or_none
from solkit.pipeline.public_figures import ForecastFigures, PublicFigures


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
        "gap_median": finite_or_none(figures.gap_median),
        "gap_p10": finite_or_none(figures.gap_p10),
        "kernel_model": _forecast_json(figures.model),
        "surrogate": _forecast_json(figures.surrogate),
    }


def _forecast_json(figures: ForecastFigures) -> dict[str, Any]:
    return {
        "rows": figures.rows,
        "time_error_median": finite_or_none(figures.error_median),
        "ratio_median": finite_or_none(figures.ratio_median),
        "spearman": finite_or_none(figures.spearman),
        "coverage_90": finite_or_none(figures.coverage_90),
    }


def render_public_timings(timings: PublicTimings, console: Console) -> None:
    """Print a table, and why rows were not rebuilt."""
    table = Table(title=", ".join(timings.sources), title_justify="left")
    heads = ("", "rows", "gap, p10/median", "kernel model", "surrogate", "in 90 %, %")
    for head in heads:
        table.add_column(head, justify="right" if head else "left", overflow="fold")
    for figures in timings.figures:
        table.add_row(
            f"  {figures.family}" if figures.family else figures.device,
            f"{figures.rows:,}",
            f"{figures.gap_p10:.2f}/{figures.gap_median:.2f}" if figures.bounded else "",
            _forecast_cell(figures.model),
            _forecast_cell(figures.surrogate),
            _format_number(100 * figures.surrogate.coverage_90, ".0f"),
        )
    console.print(table)
    console.print("Forecasts: rows, median error, median of forecast / time, Spearman over all.")
    for reason, number in timings.reasons.items():
        console.print(f"Not rebuilt: {number:,} rows: {reason}")
    for fault in timings.faults:
        console.print(f"Not read: {fault}")


def _forecast_cell(figures: ForecastFigures) -> str:
    """Return rows, error, ratio and rank correlation; empty without rows."""
    if not figures.rows:
        return ""
    error = _format_number(100 * figures.error_median, ".0f")
    rank = _format_number(figures.spearman, ".2f") or "-"
    return f"{figures.rows:,}: {error} %, {figures.ratio_median:.2f}, {rank}"


def _format_number(value: float, spec: str) -> str:
    return format(value, spec) if math.isfinite(value) else ""
