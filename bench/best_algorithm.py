"""The best algorithm of each problem: traced roofline, best, gain, and whether the plan ran equal.

    python -m bench.best_algorithm FILE|FOLDER... [--device "H100 SXM"] [--json FILE] [--limit 10]

Every problem runs in a job of its own, as in a report; seconds are those of the search alone. The
last line has the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from solkit.core import BestAlgorithm
from solkit.errors import SolkitError
from solkit.pipeline import best_algorithm
from solkit.pipeline.bounding import bounds
from solkit.processes import jobs
from solkit.report import units


@dataclass(frozen=True)
class Row:
    """One problem; `note` says why it has no plan, or what failed."""

    name: str
    roofline_ms: float | None
    hard_ms: float | None
    best_ms: float | None
    gain: float
    checked: int
    seconds: float
    steps: tuple[str, ...]
    note: str


def main() -> None:
    """Print a row per problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--device", default="H100 SXM")
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float, default=10.0)
    arguments = parser.parse_args()
    jobs.start()
    rows = []
    for path in files_of(arguments.paths):
        row = row_of(path, arguments.device, arguments.limit)
        rows.append(row)
        print(line_of(row), flush=True)
    gains = [row for row in rows if row.checked]
    seconds = [row.seconds for row in rows]
    print(
        f"{len(rows)} problems, {len(gains)} plans, all run equal; "
        f"{statistics.median(seconds):.2f} s at the median, {max(seconds):.2f} s at the most"
    )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))


def files_of(paths: list[str]) -> list[Path]:
    """Return files, those of folders sorted by the number in their names."""
    files: list[Path] = []
    for path in map(Path, paths):
        files += sorted(path.rglob("*.py"), key=_by_number) if path.is_dir() else [path]
    return files


def _by_number(path: Path) -> tuple[str, int, str]:
    head = path.name.partition("_")[0]
    return str(path.parent), int(head) if head.isdigit() else 0, path.name


def row_of(path: Path, device: str, limit_s: float) -> Row:
    """Return the figures of one problem."""
    name = f"{path.parent.name}/{path.stem}"
    try:
        report = bounds(path, device=device)
        start = time.perf_counter()
        (result, *_) = best_algorithm.with_best(report, time_limit_s=limit_s).results
    except SolkitError as error:
        return Row(name, None, None, None, 1.0, 0, 0.0, (), f"error: {error}")
    seconds = time.perf_counter() - start
    best = result.best
    assert isinstance(best, BestAlgorithm)
    return Row(
        name,
        best.roofline_ms,
        result.bound.at.hard_ms,
        best.time_ms,
        best.gain,
        len(best.checked),
        seconds,
        best.steps,
        best.note,
    )


def line_of(row: Row) -> str:
    """Return a row as text."""
    if row.roofline_ms is None:
        return f"{row.name}: {row.note}"
    times = f"{units.duration(row.roofline_ms)} -> {units.duration(row.best_ms)}"
    words = "; ".join(row.steps) if row.checked else row.note
    checked = f"equal at {row.checked} shapes" if row.checked else ""
    return f"{row.name}: {times} ({row.gain:.2f}x) {checked} {row.seconds:.2f} s: {words}"


if __name__ == "__main__":
    main()
