"""Figures of an evaluation, as PNG, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from solkit.report.figures import save_figures
from solkit.report.palette import LIGHT
from solkit.surrogate.evaluation.coverage_and_abstention import coverage_by_family
from solkit.surrogate.evaluation.pools import KINDS, draw_pools
from solkit.surrogate.evaluation.regret_metrics import regret_curve
from solkit.surrogate.table import Table
from solkit.surrogate.trees import Forecasts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_DOTS = 8_000
_MOST_MEASURED = 16
_MOST_FAMILIES = 40
_MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")

Told = Mapping[str, Mapping[str, Forecasts]]
"""By forecaster, then by split. The surrogate's own name is empty."""


def write_figures(table: Table, forecasts: Told, folder: Path | str, seed: int = 0) -> list[Path]:
    """Write every figure of an evaluation into a folder.

    Args:
        table: configurations with their times.
        forecasts: what was forecast of each; NaN for rows that were not left out.
        folder: created if missing.
        seed: of the pools.

    Returns:
        The files.

    Raises:
        InputError: the folder is not writable.
        UnsupportedError: Matplotlib is not installed.
    """
    return save_figures(_named_figures(table, forecasts, seed), folder, "--plots")


def _named_figures(table: Table, forecasts: Told, seed: int) -> Iterator[tuple[str, Figure]]:
    for split, ours in forecasts[""].items():
        rows = np.flatnonzero(~np.isnan(ours.time_ms))
        if not len(rows):
            continue
        yield f"{split}-truth", truth_figure(table[rows], ours[rows], _title_of_split(split))
        of_split = {
            name: by_split[split] for name, by_split in forecasts.items() if split in by_split
        }
        for kind in KINDS:
            figure = regret_figure(table, of_split, kind, _title_of_split(split), seed)
            if figure is not None:
                yield f"{split}-regret-{kind}", figure
        if shares := coverage_by_family(table[rows], ours[rows]):
            yield f"{split}-coverage", coverage_figure(shares, _title_of_split(split))


def _title_of_split(split: str) -> str:
    return "all rows" if split == "all" else f"left out: {split}"


def truth_figure(table: Table, forecasts: Forecasts, title: str) -> Figure:
    """Forecast times against true ones; of many rows, a sample."""
    rows = np.random.default_rng(0).permutation(len(table))[:_MOST_DOTS]
    figure, axes = _make_axes(5.2, 5.0, title)
    doubted = forecasts.abstains[rows].astype(bool)
    for is_drawn, colour, label in (
        (~doubted, LIGHT["sol"], "trusted"),
        (doubted, LIGHT["loss"], "abstains"),
    ):
        at = rows[is_drawn]
        if len(at):
            axes.scatter(
                table.time_ms[at], forecasts.time_ms[at], 4, colour, alpha=0.4, label=label
            )
    ends = [float(table.time_ms[rows].min()), float(table.time_ms[rows].max())]
    axes.plot(ends, ends, color=LIGHT["muted"], linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured, ms", ylabel="forecast, ms")
    axes.legend(markerscale=3)
    return figure


def regret_figure(
    table: Table, by_forecaster: Mapping[str, Forecasts], kind: str, title: str, seed: int = 0
) -> Figure | None:
    """Mean regret of each forecaster by how many are measured; ``None`` if there are no pools."""
    figure, axes = _make_axes(6.4, 4.2, f"{title}, pools of one {kind}")
    first = range(1, _MOST_MEASURED + 1)
    drawn = False
    for mark, (name, forecasts) in enumerate(by_forecaster.items()):
        rows = np.flatnonzero(~np.isnan(forecasts.time_ms))
        pools = list(draw_pools(table, kind, rows, seed))
        if not pools:
            continue
        drawn = True
        lost = [
            100 * regret_share
            for regret_share in regret_curve(table, pools, forecasts.time_ms, first)
        ]
        colour = LIGHT["sol"] if not name else None
        axes.plot(
            first, lost, marker=_MARKS[mark % len(_MARKS)], markersize=3.5, color=colour,
            linewidth=2 if not name else 1, label=name.replace("_", " ") or "the surrogate",
        )  # fmt: skip
    if not drawn:
        return None
    axes.set(xlabel="measured, in the order of the forecasts", ylabel="mean regret, %")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def coverage_figure(shares: Mapping[str, tuple[float, int]], title: str) -> Figure:
    """Share of rows in their 90 % interval, by family, the poorest first; of many, these."""
    poorest = sorted(shares.items(), key=lambda family: (family[1][0], family[0]))[:_MOST_FAMILIES]
    figure, axes = _make_axes(6.4, 1.2 + 0.16 * len(poorest), title)
    names = [f"{family} ({rows:,})" for family, (_, rows) in poorest]
    places = range(len(poorest))
    axes.barh(places, [100 * share for _, (share, _) in poorest], color=LIGHT["sol"], height=0.7)
    axes.axvline(90, color=LIGHT["measured"], linewidth=1)
    axes.set_yticks(list(places), names, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="rows in the 90 % interval, %", xlim=(0, 100))
    return figure


def _make_axes(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    return figure, axes
