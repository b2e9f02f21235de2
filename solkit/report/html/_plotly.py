"""Charts as Plotly figures: plain JSON, with colours by name (``var(--ink)``).

`page.js` inserts the colours of the current theme, and shows or hides roofs by ``meta``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from html import escape
from math import log10
from typing import Any

from solkit.report import charts, units

Spec = dict[str, Any]
"""``{"data": [...], "layout": {...}}``."""

_DASHES = {"roofline": "solid", "datasheet": "dash", "calibrated": "dot"}
_SYMBOLS = {"SOL": "line-ew", "modelled": "diamond", "expected": "diamond", "measured": "circle"}
_ROW_PX = 34


def roofline_plot(chart: charts.Roofline) -> Spec:
    """Draw every roof as a line, every kind of point as a trace."""
    low, high = charts.intensities(chart)
    data = [_trace_of_roof(roof, chart, low, high) for roof in chart.roofs]
    data += [trace for kind in _SYMBOLS for trace in _trace_of_points(chart, kind)]
    bottom, top = charts.rates(chart)
    return {
        "data": data,
        "layout": _plot_layout(
            height=460,
            hovermode="closest",
            xaxis=_logarithmic_axis(
                f"{chart.unit} per byte of DRAM traffic", low, high, "{:g}".format
            ),
            yaxis=_logarithmic_axis(
                "", bottom, top, lambda y: units.round_amount(y, f"{chart.unit}/s")
            ),
            legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        ),
    }


def _trace_of_roof(roof: charts.Roof, chart: charts.Roofline, low: float, high: float) -> Spec:
    xs, ys = charts.span(roof, chart, low, high)
    colour = "ink" if roof.rates == "roofline" else roof.rates
    rate = units.format_rate(roof.value, roof.unit.removesuffix("/s"))
    words = f"<b>{escape(roof.name)}</b>, {roof.rates}: {rate}<br>{_wrap_and_escape(roof.source)}"
    # A point in the middle, so that there is something to point at.
    middle = [charts.between(*ends) for ends in (xs, ys)]
    label = f"{escape(roof.name)} {rate}"
    return {
        "type": "scatter",
        "mode": "lines+text" if roof.rates == "roofline" else "lines",
        "x": [xs[0], middle[0], xs[1]],
        "y": [ys[0], middle[1], ys[1]],
        "text": ["", label, ""] if roof.is_memory else ["", "", label],
        "textposition": "bottom right" if roof.is_memory else "top left",
        "textfont": {"color": "var(--muted)", "size": 11},
        "line": {
            "color": f"var(--{colour})",
            "dash": _DASHES[roof.rates],
            "width": 1.5 if roof.used else 1,
        },
        "hovertext": words,
        "hoverinfo": "text",
        "showlegend": False,
        "visible": roof.used and roof.rates == "roofline",
        "meta": {"rates": roof.rates, "used": roof.used},
    }


def _trace_of_points(chart: charts.Roofline, kind: str) -> list[Spec]:
    points = [point for point in chart.points if point.kind == kind]
    if not points:
        return []
    line = kind == "SOL"
    colour = f"var(--{kind.lower()})"
    marker: Spec = {"symbol": _SYMBOLS[kind], "size": 22 if line else 11, "color": colour}
    if line:
        marker["line"] = {"width": 4, "color": colour}
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": kind,
            "x": [point.intensity for point in points],
            "y": [point.rate for point in points],
            "marker": marker,
            "hovertext": [_hover_text(point) for point in points],
            "hoverinfo": "text",
        }
    ]


def _hover_text(point: charts.Point) -> str:
    operations = units.amount(point.rate, "op/s")
    return (
        f"<b>{_wrap_and_escape(point.shape)}</b><br>"
        f"{point.kind}: {units.duration(point.time_ms)}<br>"
        f"{operations} on {escape(point.pipe)}, {point.intensity:.3g} op/B"
    )


def gap_plot(chart: charts.Gap) -> Spec:
    """Draw the way from the speed of light to the time: a bar per factor, end to end."""
    kind = "measured" if chart.measured else "modelled"
    total = chart.time_ms / chart.sol_ms
    rows = [("SOL", 1.0, 1.0, units.duration(chart.sol_ms), "the speed of light", "sol")]
    for step in chart.steps:
        colour = "muted" if step.kind == "none" else step.kind
        rows.append((step.name, step.start, step.end, step.words, _reasons_of_step(step), colour))
    words = f"{units.format_ratio(total)}  {units.duration(chart.time_ms)}"
    rows.append((kind, 1.0, total, words, f"{kind} time", kind))
    values = [value for row in rows for value in row[1:3]]
    low, high = min(values), max(values)
    return {
        "data": [_bars_of_rows(rows), _bar_words(rows)],
        "layout": _plot_layout(
            height=_ROW_PX * len(rows) + 80,
            barmode="overlay",
            bargap=0.35,
            xaxis=_logarithmic_axis(
                "Time over SOL (logarithmic)",
                low / 1.03,
                high * max(1.35, (high / low) ** 0.35),
                "{:g}×".format,
            ),
            yaxis=_categories([row[0] for row in rows]),
            showlegend=False,
        ),
    }


_Row = tuple[str, float, float, str, str, str]
"""Name, start, end, text beside it, text on hover, colour."""


def _bars_of_rows(rows: Sequence[_Row]) -> Spec:
    """Return the bars; a bar without width shows as a line."""
    names, _, _, _, about, colours = zip(*rows, strict=True)
    fills = [f"var(--{colour})" for colour in colours]
    return {
        "type": "bar",
        "orientation": "h",
        "y": [escape(name) for name in names],
        "base": [start for _, start, *_ in rows],
        "x": [end - start for _, start, end, *_ in rows],
        "marker": {"color": fills, "line": {"color": fills, "width": 2}},
        "hovertext": [
            f"<b>{escape(name)}</b><br>{words}" for name, words in zip(names, about, strict=True)
        ],
        "hoverinfo": "text",
    }


def _bar_words(rows: Sequence[_Row]) -> Spec:
    return {
        "type": "scatter",
        "mode": "text",
        "x": [1.02 * max(start, end) for _, start, end, *_ in rows],
        "y": [escape(row[0]) for row in rows],
        "text": [row[3] for row in rows],
        "meta": {"narrow": [row[3].partition("  ")[0] for row in rows]},
        "textposition": "middle right",
        "textfont": {"color": "var(--ink)"},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _reasons_of_step(step: charts.Step) -> str:
    said = [_wrap_and_escape(step.evidence)]
    if step.advice:
        said.append(f"<i>{_wrap_and_escape(step.advice)}</i>")
    return "<br>".join(said)


def times_plot(chart: charts.Times) -> Spec:
    """Return a mark and an interval per candidate, and the speed of light as a line."""
    scale, unit = (1e3, "µs") if chart.sol_ms < 1 else (1.0, "ms")
    sol = {"type": "line", "x0": scale * chart.sol_ms, "x1": scale * chart.sol_ms, "y0": 0, "y1": 1}
    return {
        "data": [_marks_of_times(chart, scale)],
        "layout": _plot_layout(
            height=_ROW_PX * len(chart.names) + 100,
            xaxis={
                "title": _axis_title(f"{unit} a call; line: SOL"),
                "range": [0, 1.45 * scale * max(time.high_ms for time in chart.times)],
                **_AXIS,
            },
            yaxis=_categories(chart.names),
            shapes=[sol | {"yref": "paper", "line": {"color": "var(--sol)", "width": 2}}],
            showlegend=False,
        ),
    }


def _marks_of_times(chart: charts.Times, scale: float) -> Spec:
    kinds = ["measured" if time.measured else "expected" for time in chart.times]
    times = chart.times
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [scale * time.median_ms for time in times],
        "y": [escape(name) for name in chart.names],
        "text": [f"   {units.duration(time.median_ms)}" for time in times],
        "textposition": "middle right",
        "textfont": {"color": "var(--ink)"},
        "marker": {
            "size": 12,
            "symbol": [_SYMBOLS[kind] for kind in kinds],
            "color": [f"var(--{kind})" for kind in kinds],
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [scale * (time.high_ms - time.median_ms) for time in times],
            "arrayminus": [scale * (time.median_ms - time.low_ms) for time in times],
            "color": "var(--ink)",
        },
        "hovertext": [
            f"<b>{escape(name)}</b><br>{kind}: {units.duration(time.median_ms)} "
            f"({units.duration(time.low_ms, 4)} to {units.duration(time.high_ms, 4)})"
            for name, kind, time in zip(chart.names, kinds, times)
        ],
        "hoverinfo": "text",
        "cliponaxis": False,
    }


_AXIS: Spec = {
    "gridcolor": "var(--line)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "automargin": True,
    "fixedrange": False,
}


def _logarithmic_axis(title: str, low: float, high: float, words: Callable[[float], str]) -> Spec:
    """Return a logarithmic axis."""
    ticks = charts.log_ticks(low, high)
    return {
        "type": "log",
        "title": _axis_title(title),
        "range": [log10(low), log10(high)],
        "tickvals": ticks,
        "ticktext": [words(tick) for tick in ticks],
        **_AXIS,
    }


def _axis_title(text: str) -> Spec:
    return {"text": text, "font": {"size": 12}, "standoff": 10}


def _categories(names: Sequence[str]) -> Spec:
    """Return names from top to bottom."""
    order = [escape(name) for name in names]
    wrapped = [_wrap_and_escape(name, 24) for name in names]
    return {
        **_AXIS,
        "type": "category",
        "categoryorder": "array",
        "categoryarray": order,
        "tickvals": order,
        "ticktext": wrapped,
        "range": [len(order) - 0.5, -0.5],
        "gridcolor": "rgba(0,0,0,0)",
    }


def _plot_layout(**more: Any) -> Spec:
    return {
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "var(--ink)"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 16, "r": 16, "t": 16, "b": 16},
        "hoverlabel": {
            "bgcolor": "var(--surface)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)"},
            "align": "left",
        },
        "uirevision": "kept",  # what a reader hid stays hidden when the theme changes
        **more,
    }


def _wrap_and_escape(sentence: str, width: int = 60) -> str:
    """Return lines of a label, each escaped."""
    return "<br>".join(escape(line) for line in textwrap.wrap(sentence, width))
