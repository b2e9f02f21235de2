"""Plans of `solkit rank` as one HTML file: intervals, and what moves the first forecasts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import solkit
from solkit.report.feature_words import words
from solkit.report.html._page import TEMPLATES, environment
from solkit.report.palette import DARK, LIGHT
from solkit.report.ranking import enough_words
from solkit.report.units import interval, settings, shape_words
from solkit.surrogate.model import Push
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
        """How many must be measured, if that is known."""
        return enough_words(self.plan) or ""

    @property
    def doubted(self) -> bool:
        return any(row.forecast.abstains for row in self.rows)


def ranking_page(plans: Sequence[Plan], top: int, *, written: datetime) -> str:
    """The page as text; it needs no script and loads nothing.

    Args:
        plans: of `solkit.surrogate.ranking.rank`.
        top: candidates to show besides those that are to be measured or explored.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    files = list(dict.fromkeys(each.configuration.path for p in plans for each in p.ranked))
    return (
        environment()
        .get_template("rank.html.jinja")
        .render(
            views=[_view(plan, top, several=len(files) > 1) for plan in plans],
            title=", ".join(Path(file).name for file in files),
            written=written.strftime("%Y-%m-%d %H:%M %Z"),
            version=solkit.__version__,
            style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
            light=LIGHT,
            dark=DARK,
        )
    )


def _view(plan: Plan, top: int, several: bool) -> _View:
    shown = [
        each
        for place, each in enumerate(plan.ranked)
        if place < top or each.action is not Action.SKIP
    ]
    ends = _ends(shown)
    rows = [_row(each, ends, several) for each in shown]
    return _View(plan, shape_words(plan.shape), rows, len(plan.ranked) - len(shown))


def _ends(shown: Sequence[Ranked]) -> tuple[float, float]:
    """The shortest and the longest time of all intervals, as logarithms."""
    told = [each.forecast for each in shown]
    lows = [math.log(each.low_ms) for each in told if each.low_ms]
    highs = [math.log(each.high_ms) for each in told if each.high_ms]
    return (min(lows), max(highs)) if lows and highs else (0.0, 1.0)


def _row(each: Ranked, ends: tuple[float, float], several: bool) -> _Row:
    name = settings(each.configuration.params).replace(",", " ") or "its only parameters"
    file = f"{Path(each.configuration.path).name}: " if several else ""
    line = _line(each.forecast, *ends)
    low_to_high = interval(each.forecast.low_ms, each.forecast.high_ms) or "unknown"
    return _Row(
        name=file + name,
        forecast=each.forecast,
        interval=low_to_high,
        line=line,
        depth=each.depth.value,
        action=each.action.value,
        reason=each.reason,
        pushes=_pushes(each.pushes),
    )


def _line(told: Forecast, start: float, end: float) -> Mapping[str, float] | None:
    if told.time_ms is None or told.low_ms is None or told.high_ms is None:
        return None
    span = max(end - start, 1e-9)
    low, at, high = (
        100 * (math.log(each) - start) / span for each in (told.low_ms, told.time_ms, told.high_ms)
    )
    return {"low": round(low, 1), "at": round(at, 1), "width": round(high - low, 1)}


def _pushes(pushes: Sequence[Push]) -> list[Mapping[str, Any]]:
    largest = max((abs(math.log(push.factor)) for push in pushes), default=1.0) or 1.0
    return [
        {
            "feature": words(push.feature),
            "value": "unknown" if push.value is None else f"{push.value:.4g}",
            "factor": f"{push.factor:.2f}",
            "slower": push.factor > 1,
            "width": round(100 * abs(math.log(push.factor)) / largest, 1),
        }
        for push in pushes
    ]
