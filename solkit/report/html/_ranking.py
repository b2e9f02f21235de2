"""Plans of `solkit rank` as one HTML file: intervals, and what moves the first forecasts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import solkit
from solkit.report.feature_words import words_of_feature
from solkit.report.html._page import TEMPLATES, environment
from solkit.report.palette import DARK, LIGHT
from solkit.report.ranking import enough_words
from solkit.report.units import format_settings, interval, shape_words
from solkit.surrogate.model import Contribution
from solkit.surrogate.plan import Action, Forecast, Plan, Ranked

__all__ = ["ranking_page"]


@dataclass(frozen=True)
class _Row:
    """A candidate as the page shows it; lengths are per cent of a cell."""

    name: str
    forecast: Forecast
    interval: str
    line: Mapping[str, float] | None
    depth: str
    action: str
    reason: str
    pushes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _View:
    """A plan as the page shows it."""

    plan: Plan
    shape: str
    rows: Sequence[_Row]
    rest: int

    @property
    def explained(self) -> Sequence[_Row]:
        return [row for row in self.rows if row.pushes]

    @property
    def enough(self) -> str:
        """Number of candidates that must be measured, in words; empty if that is unknown."""
        return enough_words(self.plan) or ""

    @property
    def doubted(self) -> bool:
        return any(row.forecast.abstains for row in self.rows)


def ranking_page(plans: Sequence[Plan], top: int, *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        plans: of `solkit.surrogate.ranking.rank`.
        top: candidates to show besides those that are to be measured or explored.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    files = list(dict.fromkeys(ranked.configuration.path for p in plans for ranked in p.ranked))
    return (
        environment()
        .get_template("rank.html.jinja")
        .render(
            views=[_view_of_plan(plan, top, several=len(files) > 1) for plan in plans],
            title=", ".join(Path(file).name for file in files),
            written=written.strftime("%Y-%m-%d %H:%M %Z"),
            version=solkit.__version__,
            style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
            light=LIGHT,
            dark=DARK,
        )
    )


def _view_of_plan(plan: Plan, top: int, several: bool) -> _View:
    shown = [
        ranked
        for place, ranked in enumerate(plan.ranked)
        if place < top or ranked.action is not Action.SKIP
    ]
    ends = _ends_of_intervals(shown)
    rows = [_row_of_candidate(ranked, ends, several) for ranked in shown]
    return _View(plan, shape_words(plan.shape), rows, len(plan.ranked) - len(shown))


def _ends_of_intervals(shown: Sequence[Ranked]) -> tuple[float, float]:
    """Return the shortest and the longest time of all intervals, as logarithms."""
    forecasts = [ranked.forecast for ranked in shown]
    lows = [math.log(forecast.low_ms) for forecast in forecasts if forecast.low_ms]
    highs = [math.log(forecast.high_ms) for forecast in forecasts if forecast.high_ms]
    return (min(lows), max(highs)) if lows and highs else (0.0, 1.0)


def _row_of_candidate(ranked: Ranked, ends: tuple[float, float], several: bool) -> _Row:
    name = format_settings(ranked.configuration.params).replace(",", " ") or "its only parameters"
    file = f"{Path(ranked.configuration.path).name}: " if several else ""
    line = _interval_line(ranked.forecast, *ends)
    low_to_high = interval(ranked.forecast.low_ms, ranked.forecast.high_ms) or "unknown"
    return _Row(
        name=file + name,
        forecast=ranked.forecast,
        interval=low_to_high,
        line=line,
        depth=ranked.depth.value,
        action=ranked.action.value,
        reason=ranked.reason,
        pushes=_format_pushes(ranked.pushes),
    )


def _interval_line(forecast: Forecast, start: float, end: float) -> Mapping[str, float] | None:
    if forecast.time_ms is None or forecast.low_ms is None or forecast.high_ms is None:
        return None
    span = max(end - start, 1e-9)
    low, at, high = (
        100 * (math.log(time_ms) - start) / span
        for time_ms in (forecast.low_ms, forecast.time_ms, forecast.high_ms)
    )
    return {"low": round(low, 1), "at": round(at, 1), "width": round(high - low, 1)}


def _format_pushes(pushes: Sequence[Contribution]) -> list[Mapping[str, Any]]:
    largest = max((abs(math.log(push.factor)) for push in pushes), default=1.0) or 1.0
    return [
        {
            "feature": words_of_feature(push.feature),
            "value": "unknown" if push.value is None else f"{push.value:.4g}",
            "factor": f"{push.factor:.2f}",
            "slower": push.factor > 1,
            "width": round(100 * abs(math.log(push.factor)) / largest, 1),
        }
        for push in pushes
    ]
