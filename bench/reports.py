"""Report on many kernels at once; print what SolKit's own work takes, part by part.

    python bench/reports.py [--kernels 100] [--device h100] [--out index.html]

Writes so many kernel files (the examples in turn, each at a shape of its own), compiles their
kernels once to fill Triton's cache, and then times what ``solkit score DIR/*.py --html`` does:
bounds, analysis and model of each from cached kernels, JSON, and the page. Exits with 1 where
that takes longer than 0.6 s a kernel, or the page is larger than 6 MB.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

import solkit
from solkit.core import Report
from solkit.report import schema
from solkit.report.html import page
from solkit.report.overview import named

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
MOST_S_A_KERNEL, MOST_BYTES = 0.6, 6_000_000
Result = TypeVar("Result")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the page there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = written(Path(folder), options.kernels)
        compiling_s, _ = timed(lambda: scored(files, options.device))
        scoring_s, reports = timed(lambda: scored(files, options.device))
        json_s, models = timed(lambda: [schema.to_model(report) for report in reports])
    text_s, _ = timed(lambda: [schema.dumps(model) for model in models])
    now = datetime.now(timezone.utc)
    page_s, html = timed(lambda: page(named(models), written=now))
    if options.out:
        options.out.write_text(html, encoding="utf-8")
    parts = {
        "bounds, analysis and model": scoring_s,
        "JSON": json_s + text_s,
        "page": page_s,
    }
    return show(parts, len(files), compiling_s - scoring_s, len(html.encode()))


def written(folder: Path, count: int) -> list[Path]:
    """The kernel files; sizes differ, so that no two have their bound in common."""
    files = []
    for i in range(count):
        example = EXAMPLES[i % len(EXAMPLES)]
        text = example.read_text(encoding="utf-8")
        grown = f"\nSHAPES = [{{n: v + {128 * i // len(EXAMPLES)} * (j == 0) for j, (n, v) in "
        grown += "enumerate(SHAPES[0].items())}]\n"
        files.append(folder / f"{example.stem}_{i:03d}.py")
        files[-1].write_text(text + grown, encoding="utf-8")
    return files


def scored(files: Sequence[Path], device: str) -> list[Report]:
    return [solkit.score(file, device=device, measure=False) for file in files]


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def show(parts: dict[str, float], kernels: int, compiling_s: float, size: int) -> int:
    table = Table(title=f"{kernels} kernels on {os.cpu_count()} CPU cores")
    for name, justify in (("part", "left"), ("all", "right"), ("a kernel", "right")):
        table.add_column(name, justify=justify)
    total_s = sum(parts.values())
    for name, seconds in {**parts, "SolKit's own": total_s, "compiling": compiling_s}.items():
        table.add_row(name, f"{seconds:.1f} s", f"{1e3 * seconds / kernels:.0f} ms")
    console = Console(width=100)
    console.print(table)
    console.print(f"the page is {size / 1e6:.2f} MB")
    return int(total_s > MOST_S_A_KERNEL * kernels or size > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
