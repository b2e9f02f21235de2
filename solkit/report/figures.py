"""Figures for papers and slides, as PNG and SVG, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.errors import InputError
from solkit.extras import library
from solkit.report import charts, units
from solkit.report.diff import compare_reports
from solkit.report.overview import NamedReport, file_name
from solkit.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "solkit",  # the same figure is the same file
    "text.parse_math": False,  # a $ in a name is a $
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.edgecolor": LIGHT["line"],
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.12,
    "figure.constrained_layout.w_pad": 0.12,
}
_DASHES = {"roofline": "-", "datasheet": "--", "calibrated": ":"}
_MARKERS = {"SOL": "_", "modelled": "D", "expected": "D", "measured": "o"}
_DOTS_PER_INCH = 160


def write(reports: Sequence[NamedReport], folder: Path | str) -> list[Path]:
    """Write every figure of the reports into a folder, as PNG and SVG.

    Args:
        reports: from `solkit.report.overview.named`.
        folder: created if missing.

    Returns: The files, in the order of the page.

    Raises:
        InputError: the folder is not writable.
        UnsupportedError: Matplotlib is not installed.
    """
    return save_figures(_named_figures(reports), folder, "--figures", _KINDS)


def save_figures(
    named_figures: Iterator[tuple[str, Figure]],
    folder: Path | str,
    option: str,
    kinds: Sequence[str] = ("png",),
) -> list[Path]:
    """Write figures into a folder, drawn one by one.

    Args:
        named_figures: with their files' names.
        folder: created if missing.
        option: of the command line that names the folder.
        kinds: of files, for each figure.

    Returns:
        The files.

    Raises:
        InputError: the folder is not writable.
        UnsupportedError: Matplotlib is not installed.
    """
    matplotlib = library("matplotlib")
    written = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(STYLE):
            for name, figure in named_figures:
                written += [_save_figure(figure, Path(folder) / f"{name}.{kind}") for kind in kinds]
    except OSError as error:
        raise InputError(f"{option}: cannot write to {folder}: {error.strerror}") from error
    return written


_KINDS = ("png", "svg")


def _save_figure(figure: Figure, path: Path) -> Path:
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, dpi=_DOTS_PER_INCH, metadata=metadata)
    return path


def _named_figures(reports: Sequence[NamedReport]) -> Iterator[tuple[str, Figure]]:
    """Yield every figure with its file name."""
    for named in reports:
        name = file_name(named.name)
        chart = charts.roofline_of(named.report)
        if chart.points:
            yield f"{name}-roofline", roofline_figure(chart, named.name)
        for i, result in enumerate(named.report.results, 1):
            steps = charts.gap_of(result)
            if steps:
                title = f"{named.name}, {units.shape_words(result.shape)}"
                yield f"{name}-gap-{i}", gap_figure(steps, title)
    for i, group in enumerate(compare_reports(reports), 1):
        chosen = charts.times_of(group)
        if chosen:
            yield f"comparison-{i}", times_figure(chosen)


# ---------------------------------------------------------------------------------- figures


def roofline_figure(chart: charts.Roofline, title: str) -> Figure:
    """Return the roofs that the shapes use, in every set of rates, and a mark per shape."""
    figure, axes = _make_axes(7.2, 4.6, f"{title} on {chart.device}")
    low, high = charts.intensities(chart)
    for roof in chart.roofs:
        if roof.used:
            _draw_roof(axes, roof, chart, low, high)
    for kind, marker in _MARKERS.items():
        points = [point for point in chart.points if point.kind == kind]
        if points:
            xs, ys = [p.intensity for p in points], [p.rate for p in points]
            size = 220 if kind == "SOL" else 42
            colour = LIGHT[kind.lower()]
            axes.scatter(xs, ys, size, colour, marker=marker, label=kind, zorder=3)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=charts.rates(chart))
    axes.set_xlabel(f"{chart.unit} per byte of DRAM traffic")
    xs, ys = charts.log_ticks(low, high), charts.log_ticks(*charts.rates(chart))
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.set_yticks(ys, [units.round_amount(y, f"{chart.unit}/s") for y in ys])
    axes.minorticks_off()
    axes.grid(color=LIGHT["line"], linewidth=0.5)
    axes.legend(loc="lower right")
    return figure


def _draw_roof(
    axes: Axes, roof: charts.Roof, chart: charts.Roofline, low: float, high: float
) -> None:
    xs, ys = charts.span(roof, chart, low, high)
    colour = "ink" if roof.rates == "roofline" else roof.rates
    labels = axes.get_legend_handles_labels()[1]
    label = "_" if roof.rates in labels else roof.rates  # the legend leaves out names with _
    axes.plot(xs, ys, _DASHES[roof.rates], color=LIGHT[colour], linewidth=1.2, label=label)
    if roof.rates == "roofline":
        words = f"{roof.name}, {units.format_rate(roof.value, roof.unit.removesuffix('/s'))}"
        middle = charts.between(*xs), charts.between(*ys)
        end, offset, side = (xs[1], ys[1]), (-4, 4), "right"
        if roof.is_memory:
            end, offset, side = middle, (6, -9), "left"
        axes.annotate(words, end, offset, textcoords="offset points", ha=side, fontsize=8.5)


def gap_figure(chart: charts.Gap, title: str) -> Figure:
    """Draw the way from the speed of light to the time: a bar per factor, end to end."""
    kind = "measured" if chart.measured else "modelled"
    rows = [("SOL", 1.0, 1.0, units.duration(chart.sol_ms), "sol")]
    for step in chart.steps:
        colour = "muted" if step.kind == "none" else step.kind
        rows.append((step.name, step.start, step.end, step.words, colour))
    total = chart.time_ms / chart.sol_ms if chart.sol_ms else 1.0
    words = f"{units.format_ratio(total)}  {units.duration(chart.time_ms)}"
    rows.append((kind, 1.0, total, words, kind))
    figure, axes = _make_axes(7.2, 0.36 * len(rows) + 1.3, f"{title}: {kind} time over SOL")
    for y, (_, start, end, words, colour) in enumerate(rows):
        axes.barh(y, end - start, left=start, height=0.62, color=LIGHT[colour])
        if start == end:
            axes.plot([start], [y], "|", color=LIGHT[colour], markersize=13, markeredgewidth=3)
        axes.annotate(words, (max(start, end), y), (6, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.invert_yaxis()
    _log_ratios(axes, [value for row in rows for value in row[1:3]])
    return figure


def times_figure(chart: charts.Times) -> Figure:
    """Return a mark and an interval per candidate, and the speed of light as a line."""
    figure, axes = _make_axes(7.2, 0.4 * len(chart.names) + 1.4, f"Time of a call at {chart.shape}")
    for y, time in enumerate(chart.times):
        kind = "measured" if time.measured else "expected"
        reach = [[time.median_ms - time.low_ms], [time.high_ms - time.median_ms]]
        axes.errorbar(
            time.median_ms, y, xerr=reach, fmt=_MARKERS[kind], color=LIGHT[kind], capsize=3
        )
        words = units.duration(time.median_ms)
        place = (time.high_ms, y)
        axes.annotate(words, place, (8, 0), textcoords="offset points", va="center")
    axes.axvline(chart.sol_ms, color=LIGHT["sol"], linewidth=1.5)
    axes.set_yticks(range(len(chart.names)), chart.names)
    axes.set_ylim(len(chart.names) - 0.4, -0.6)
    axes.set_xlim(0, 1.2 * max(time.high_ms for time in chart.times))
    axes.xaxis.set_major_formatter(lambda value, _: units.duration(value) if value else "0")
    axes.set_xlabel("Time of a call; the line is SOL; circles are measured, diamonds expected")
    return figure


def _make_axes(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10.5)
    return figure, axes


def _log_ratios(axes: Axes, values: Sequence[float]) -> None:
    """Draw a logarithmic axis of factors, with room for text at its end."""
    low, high = min(values), max(values)
    axes.set_xscale("log")
    ends = low / 1.02, high * max(1.3, (high / low) ** 0.3)
    axes.set_xlim(*ends)
    ticks = charts.log_ticks(*ends)
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("Time over the speed of light (logarithmic)")
    axes.grid(axis="x", color=LIGHT["line"], linewidth=0.5)
    axes.set_axisbelow(True)
