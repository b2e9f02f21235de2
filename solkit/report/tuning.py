"""Result of `solkit tune`: as a page, as JSON ``solkit.tune/1``, and as a figure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from solkit.core import (
    BETTER,
    EvolveStatus,
    Final,
    Stopped,
    TimedParams,
    Tuned,
    TuneStatus,
    TuneVerdict,
    Value,
)
from solkit.core.codec import chosen_fields
from solkit.core.quantities import duration
from solkit.datasets.formats.triton_autotune import OPTIONS
from solkit.extras import library
from solkit.report.charts import log_ticks
from solkit.report.palette import LIGHT
from solkit.report.units import format_settings, shape_words

SCHEMA = "solkit.tune/1"

_MOST_EQUALS = 3  # listed on a line

_STOPPED = {
    Stopped.SPEED_OF_LIGHT: "it is as near to the speed of light as was asked for",
    Stopped.EXPECTED_GAIN: "little is left to save",
    Stopped.EXHAUSTED: "nothing is left to measure",
    Stopped.NOTHING_RUNS: "nothing could be measured",
    Stopped.FAILS_ALIKE: "every configuration fails for the same reason",
    Stopped.SMALL_SHARE: "it could save too little of all kernels' time",
    Stopped.BUDGET: "the budget is spent",
    Stopped.INTERRUPTED: "it was interrupted",
}


def dumps(tuned: Tuned) -> str:
    """Return the result as JSON; times in ms and s, shares as fractions."""
    return json.dumps(as_json(tuned), indent=2, allow_nan=False)


def as_json(tuned: Tuned) -> dict[str, Any]:
    """Return the result as ``solkit.tune/1``."""
    return {
        "schema": SCHEMA,
        **chosen_fields(tuned, "kernel", "kernel_id", "problem_id", "shape", "device", "sol_ms"),
        "default": _timed_json(tuned.default),
        "best": None if tuned.best is None else _timed_json(tuned.best),
        "equals": [_timed_json(timed) for timed in tuned.equals],
        "verdict": tuned.verdict.value,
        "speedup": speedup_json(tuned.final),
        "params": dict(tuned.params),
        "final": final_json(tuned.final),
        **chosen_fields(tuned, "measured", "failed", "gpu_s", "final_s", "stopped"),
        **chosen_fields(tuned, "expected_gain", "better_chance"),
        **chosen_fields(tuned, "trajectory", "log", "notes", "launched", "l2"),
        "versions": dict(tuned.environment),
    }


def _timed_json(timed: TimedParams) -> dict[str, Any]:
    return {
        "params": dict(timed.params),
        "time_ms": timed.time_ms,
        "low": timed.low_ms,
        "high": timed.high_ms,
        "message": timed.message,
    }


def speedup_json(final: Final | None) -> dict[str, Any] | None:
    """Return the time in use over the best one's; its interval is the ratio's, inverted."""
    ratio = None if final is None else final.ratio
    if ratio is None:
        return None
    return {
        "value": 1 / ratio.value,
        "low": 1 / ratio.high,
        "high": 1 / ratio.low if ratio.low > 0 else None,
    }


def final_json(final: Final | None) -> dict[str, Any] | None:
    """Return a head-to-head; ``None`` if there was none."""
    if final is None:
        return None
    return {
        **chosen_fields(final, "params", "difference"),
        "turns": None if final.ratio is None else final.ratio.turns,
        **chosen_fields(final, "how", "evidence"),
    }


# -------------------------------------------------------------------------------------------- view


@dataclass(frozen=True)
class SearchView:
    """A finished search in words, from its JSON: the same on terminal, page and in a summary.

    Attributes:
        title: kernel, shape and GPU.
        in_use, best: a configuration with its time; `best` is empty if it adds nothing.
        answer: what to do, and what shows it.
        effort: what was tried, and why the search ended.
        notes: what limits the result, each a sentence.
        equals: which others are as fast as the best; empty if there is none.
    """

    title: str
    in_use: str
    best: str
    answer: str
    effort: str
    notes: tuple[str, ...]
    equals: str = ""

    @classmethod
    def from_json(cls, tuned: Mapping[str, Any]) -> SearchView:
        """Return the view of a ``solkit.tune/1``."""
        best, in_use, final = tuned["best"], tuned["default"], tuned["final"]
        speedup = speedup_words(tuned["speedup"])
        if tuned["verdict"] == TuneVerdict.FASTER.value:
            answer = f"Use the best: {speedup or 'what you have fails'}."
        elif speedup:
            answer = (
                f"Keep what you have: no faster one was shown. In the final the best was {speedup}."
            )
        else:
            answer = "Keep what you have: no faster one was found."
        differs = best is not None and best["params"] != in_use["params"]
        return cls(
            title=title_words(tuned),
            in_use=timed_words(in_use, tuned["sol_ms"]),
            best=timed_words(best, tuned["sol_ms"]) if differs else "",
            answer=answer,
            effort=f"{tuned['measured']} configurations {effort_words(tuned)}",
            notes=(*tuned["notes"], *(final["evidence"] if final else ())),
            equals=_equals_words(tuned.get("equals", ())),
        )

    def lines(self) -> Iterator[str]:
        """Yield what every page of a search begins with."""
        yield self.title
        yield f"  in use  {self.in_use}"
        if self.best:
            yield f"  best    {self.best}"
        if self.equals:
            yield f"  {self.equals}"
        yield f"  {self.answer}"


def title_words(search: Mapping[str, Any]) -> str:
    """Return the kernel, the shape and the GPU of a search's JSON."""
    return f"{search['kernel']} at {shape_words(search['shape'])} on {search['device']}"


def timed_words(timed: Mapping[str, Any], sol_ms: float | None) -> str:
    """Return a configuration's time, or why it has none, with its parameters."""
    params = f"  ({format_settings(timed['params'])})" if timed["params"] else ""
    if timed["time_ms"] is None:
        return (f"fails: {timed['message']}" if timed["message"] else "was not measured") + params
    gap = f", {timed['time_ms'] / sol_ms:.2f} times the speed of light" if sol_ms else ""
    return f"{duration(timed['time_ms'])}{gap}{params}"


def _equals_words(equals: Sequence[Mapping[str, Any]]) -> str:
    """Return the configurations that are as fast as the best; empty if there is none."""
    if not equals:
        return ""
    listed = "; ".join(format_settings(timed["params"]) for timed in equals[:_MOST_EQUALS])
    hidden = len(equals) - _MOST_EQUALS
    more = f"; and {hidden} more" if hidden > 0 else ""
    others = "1 other is" if len(equals) == 1 else f"{len(equals)} others are"
    return f"{others} as fast, as far as was measured: {listed}{more}."


def speedup_words(speedup: Mapping[str, Any] | None) -> str:
    """Return how many times as fast the best is, with its interval; empty if it is unknown."""
    if speedup is None:
        return ""
    high = "" if speedup["high"] is None else f"{speedup['high']:.3f}"
    return f"{speedup['value']:.3f} times as fast (95 %: {speedup['low']:.3f} to {high})"


def effort_words(search: Mapping[str, Any]) -> str:
    """Return the GPU time of a search's JSON, how many failed, and why it ended."""
    failed = f", {search['failed']} of them failed" if search["failed"] else ""
    why = _STOPPED[Stopped(search["stopped"])]
    chance = search.get("better_chance")
    sure = "" if chance is None else f"; {_chance_words(chance)}"
    return f"in {search['gpu_s']:.1f} GPU s{failed}; stopped because {why}{sure}."


def _chance_words(chance: float) -> str:
    """Return how sure it is that nothing clearly faster is left."""
    share = "under 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"
    return f"the chance that another saves over {100 * BETTER:.0f} % is {share}"


# -------------------------------------------------------------------------------------------- text


def render(tuned: Tuned, console: Console) -> None:
    """Print the result."""
    view = SearchView.from_json(as_json(tuned))
    for line in (*view.lines(), *(f"  {text}" for text in (view.effort, *view.notes))):
        console.print(line)
    if tuned.verdict is TuneVerdict.FASTER and tuned.best is not None and tuned.best.params:
        console.print("  Paste, as the kernel takes its parameters:")
        for text in params_as_source(tuned.best.params):
            console.print(f"    {text}", highlight=False, markup=False, soft_wrap=True)


def params_as_source(params: Mapping[str, Value]) -> tuple[str, str]:
    """Return parameters as source: keyword arguments of a call, and Triton's decorator."""
    call = ", ".join(f"{name}={value!r}" for name, value in params.items())
    constants = {name: value for name, value in params.items() if name not in OPTIONS}
    options = [f"{name}={params[name]!r}" for name in OPTIONS if params.get(name) is not None]
    config = ", ".join([repr(constants), *options])
    return f"kernel(..., {call})", f"@triton.autotune([triton.Config({config})], key=[])"


def status_line(status: TuneStatus) -> str:
    """Return how far a run is, in a line."""
    gain = status.expected_gain
    return progress_words(status) + ("" if gain is None else f"; next may save {gain:.2%}")


def progress_words(status: TuneStatus | EvolveStatus, proposed: str = "", kind: str = "") -> str:
    """Return stage, budget, counts and best time of a search; `kind` stands behind the best."""
    phrases = [status.stage]
    if status.budget_s:
        remaining_s = max(status.budget_s - status.gpu_s, 0)
        phrases.append(f"{remaining_s:.0f} of {status.budget_s:.0f} s left")
    if proposed:
        phrases.append(proposed)
    if status.measured:
        failed = f" ({status.failed} failed)" if status.failed else ""
        phrases.append(f"{status.measured} measured{failed}")
    if status.best_ms is not None:
        gap = "" if status.gap is None else f", {status.gap:.2f} times the speed of light"
        phrases.append(f"best {duration(status.best_ms)}{gap}{kind}")
    return "; ".join(phrases)


# ------------------------------------------------------------------------------------------ figure


def convergence_plot(tuned: Tuned) -> str:
    """Return an HTML page of its own: the best time against GPU seconds.

    Raises:
        UnsupportedError: plotly is not installed.
    """
    library("plotly")
    import plotly.graph_objects as go

    page = go.Figure(layout=_plot_layout(tuned))
    seconds = [at.gpu_s for at in tuned.trajectory]
    times = [at.best_ms for at in tuned.trajectory]
    if seconds:
        seconds, times = [*seconds, max(tuned.gpu_s, seconds[-1])], [*times, times[-1]]
    line = {"shape": "hv", "color": LIGHT["measured"], "width": 3}
    hover = "%{text} after %{x:.1f} s<extra></extra>"
    words = [duration(time_ms) for time_ms in times]
    best = {"name": "best so far", "text": words, "hovertemplate": hover, "line": line}
    page.add_trace(go.Scatter(x=seconds, y=times, mode="lines", **best))
    for name, level_ms in _reference_levels(tuned).items():
        dash, colour = ("dot", "muted") if name == "in use" else ("dash", "sol")
        page.add_trace(
            go.Scatter(
                x=[0.0, max([tuned.gpu_s, *seconds, 1e-3])],
                y=[level_ms, level_ms],
                mode="lines",
                name=f"{name}, {duration(level_ms)}",
                line={"dash": dash, "color": LIGHT[colour]},
                hoverinfo="skip",
            )
        )
    return str(page.to_html(include_plotlyjs=True, full_html=True))


def _reference_levels(tuned: Tuned) -> dict[str, float]:
    levels = {"in use": tuned.default.time_ms, "speed of light": tuned.sol_ms}
    return {name: level_ms for name, level_ms in levels.items() if level_ms is not None}


def _plot_layout(tuned: Tuned) -> Mapping[str, Any]:
    shown = [at.best_ms for at in tuned.trajectory] + [*_reference_levels(tuned).values()]
    low, high = (min(shown) / 1.05, max(shown) * 1.05) if shown else (1.0, 10.0)
    ticks = log_ticks(low, high)
    where = f"{shape_words(tuned.shape)} on {tuned.device}"
    effort = SearchView.from_json(as_json(tuned)).effort
    return {
        "title": {"text": f"{tuned.kernel}<br><sup>{where}</sup><br><sup>{effort}</sup>"},
        "xaxis": {"title": "GPU seconds, compile time included", "rangemode": "tozero"},
        "yaxis": {
            "title": "time of a call (logarithmic)",
            "type": "log",
            "range": [math.log10(low), math.log10(high)],
            "tickvals": ticks,
            "ticktext": [f"{tick:g} ms" if tick >= 1 else f"{1e3 * tick:g} µs" for tick in ticks],
        },
        "template": "plotly_white",
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1, "xanchor": "right"},
        "margin": {"t": 130},
    }
