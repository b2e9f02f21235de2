"""Plans of `solkit rank` as one HTML file: intervals, and what moves the first forecasts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from solkit.report.html._page import fill_template
from solkit.report.ranking import CandidateView, PlanView


def ranking_page(document: Mapping[str, Any], top: int, *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        document: ``solkit.rank/1``.
        top: candidates to show: those that are to be measured or explored, and others up to here.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    plans = document["results"]
    files = dict.fromkeys(Path(entry["file"]).name for plan in plans for entry in plan["ranking"])
    views = [PlanView.from_json(plan) for plan in plans]
    shown = [view.shown(top) for view in views]
    return fill_template(
        "rank",
        title=", ".join(files),
        written=written,
        plans=[
            (view, list(zip(candidates, _interval_lines(candidates), strict=True)))
            for view, candidates in zip(views, shown, strict=True)
        ],
        push_bars=_push_bars,
    )


def _interval_lines(shown: Sequence[CandidateView]) -> Iterator[Mapping[str, float] | None]:
    """Yield place and width of each interval, in per cent of the logarithmic axis of all."""
    forecasts = [candidate.entry["forecast"] for candidate in shown]
    lows = [math.log(forecast["low_ms"]) for forecast in forecasts if forecast["low_ms"]]
    highs = [math.log(forecast["high_ms"]) for forecast in forecasts if forecast["high_ms"]]
    start, end = (min(lows), max(highs)) if lows and highs else (0.0, 1.0)
    for forecast in forecasts:
        times = [forecast[name] for name in ("low_ms", "time_ms", "high_ms")]
        if None in times:
            yield None
            continue
        low, at, high = (
            100 * (math.log(time_ms) - start) / max(end - start, 1e-9) for time_ms in times
        )
        yield {"low": round(low, 1), "at": round(at, 1), "width": round(high - low, 1)}


def _push_bars(candidate: CandidateView) -> list[Mapping[str, Any]]:
    """Return each feature that moves a forecast, with a bar in per cent of the longest."""
    pushes = candidate.entry["explanation"]
    strengths = [abs(math.log(push["time_factor"])) for push in pushes]
    return [
        {
            "feature": push["words"],
            "value": "unknown" if push["value"] is None else f"{push['value']:.4g}",
            "factor": f"{push['time_factor']:.2f}",
            "slower": push["time_factor"] > 1,
            "width": round(100 * strength / (max(strengths) or 1.0), 1),
        }
        for push, strength in zip(pushes, strengths, strict=True)
    ]
