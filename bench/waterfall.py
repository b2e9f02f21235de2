"""Waterfall of a command: what each of its processes did, and when.

    python bench/waterfall.py [--repeats 5] [--json FILE] [--html FILE] -- score examples/softmax.py

Runs ``solkit`` with these arguments and Triton's cache empty, and prints the spans of the run with
the median wall time (`solkit.spans`), by process, with what preceded the first and followed the
last. Then the totals of each part, and when the GPU was not measuring: the longest pauses between
two measurements, with when they began. The exit code is the command's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.spans import SPANS_FILE

_WIDTH = 60
_LEAST_S = 0.05


@dataclass(frozen=True)
class Run:
    """One run of the command; its spans count from its start."""

    wall_s: float
    code: int
    spans: tuple[dict[str, Any], ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--least-s", type=float, default=_LEAST_S, help="shorter spans are hidden")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--html", type=Path)
    parser.add_argument("command", nargs="+", help="arguments of solkit, after --")
    options = parser.parse_args()
    runs = sorted((run_command(options.command) for _ in range(options.repeats)), key=wall_of)
    run = runs[len(runs) // 2]
    walls = ", ".join(f"{one.wall_s:.1f}" for one in runs)
    print(f"solkit {' '.join(options.command)}: median {run.wall_s:.1f} s of {walls}")
    Console(width=150, highlight=False, markup=False).print(table_of(run, options.least_s))
    Console(width=150, highlight=False, markup=False).print(totals_of(run))
    print(f"pauses between measurements: {describe_pauses(run)}")
    if options.json:
        content = {"wall_s": [one.wall_s for one in runs], "spans": run.spans}
        options.json.write_text(json.dumps(content, indent=1))
    if options.html:
        write_picture(run, options.html)
    return run.code


def wall_of(run: Run) -> float:
    return run.wall_s


def run_command(arguments: Sequence[str]) -> Run:
    """Run the command once, with an empty cache of compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        spans = Path(folder) / "spans"
        env = {**os.environ, SPANS_FILE: str(spans), "TRITON_CACHE_DIR": f"{folder}/triton"}
        begun_s = time.monotonic()
        code = subprocess.run([sys.executable, "-m", "solkit", *arguments], env=env).returncode
        wall_s = time.monotonic() - begun_s
        lines = spans.read_text().splitlines() if spans.exists() else []
    since = [
        {**span, "start_s": span["start_s"] - begun_s, "end_s": span["end_s"] - begun_s}
        for span in map(json.loads, lines)
    ]
    return Run(wall_s, code, tuple(sorted(since, key=lambda span: span["start_s"])))


def table_of(run: Run, least_s: float) -> Table:
    """Return the spans as bars over the command's wall time."""
    table = Table("process", "part", "from s", "s", "", box=None)
    for span in run.spans:
        took_s = span["end_s"] - span["start_s"]
        if took_s >= least_s:
            start = int(_WIDTH * span["start_s"] / run.wall_s)
            length = max(1, round(_WIDTH * took_s / run.wall_s))
            bar = " " * start + "█" * min(length, _WIDTH - start)
            times = f"{span['start_s']:.2f}", f"{took_s:.2f}"
            table.add_row(f"{span['process']} {span['pid']}", span["name"], *times, bar)
    return table


def totals_of(run: Run) -> Table:
    """Return how often each part ran, and its seconds, the longest in all first."""
    took_s: dict[tuple[str, str], list[float]] = {}
    for span in run.spans:
        key = span["process"], span["name"]
        took_s.setdefault(key, []).append(span["end_s"] - span["start_s"])
    table = Table("process", "part", "times", "s", "longest s", box=None)
    for key, seconds in sorted(took_s.items(), key=lambda item: -sum(item[1])):
        table.add_row(*key, str(len(seconds)), f"{sum(seconds):.1f}", f"{max(seconds):.1f}")
    return table


def describe_pauses(run: Run, most: int = 8) -> str:
    """Return the longest pauses between two measurements of the command, and the sum of all."""
    measured = sorted(
        (span["start_s"], span["end_s"])
        for span in run.spans
        if (span["process"], span["name"]) == ("command", "measuring")
    )
    ends = itertools.accumulate((end_s for _, end_s in measured), max)
    pauses = [(start_s - end_s, end_s) for end_s, (start_s, _) in zip(ends, measured[1:])]
    longest = sorted(pauses, reverse=True)[:most]
    listed = ", ".join(f"{pause_s:.1f} s at {at_s:.1f}" for pause_s, at_s in longest)
    total_s = sum(pause_s for pause_s, _ in pauses)
    return f"{total_s:.1f} s in all; {listed}" if pauses else "none"


def write_picture(run: Run, path: Path) -> None:
    """Write the spans as a picture: one line a process, a bar a span."""
    import plotly.graph_objects as figures

    bars = figures.Bar(
        orientation="h",
        y=[f"{span['process']} {span['pid']}" for span in run.spans],
        base=[span["start_s"] for span in run.spans],
        x=[span["end_s"] - span["start_s"] for span in run.spans],
        text=[span["name"] for span in run.spans],
        marker_line_width=1,
    )
    figure = figures.Figure(bars)
    figure.update_layout(barmode="overlay", xaxis_title="seconds since the start")
    figure.update_yaxes(autorange="reversed")
    figure.write_html(path, include_plotlyjs="cdn")


if __name__ == "__main__":
    sys.exit(main())
