"""Score every example; print what the README promises of them, measured here and now.

    python bench/examples.py [--device h100] [--out DIR]

Prints (1) the seconds that ``solkit score examples/matmul.py`` takes with an empty and with a
filled compile cache, and that a bound takes per problem; (2) for every example and shape the
roofline, the hard bound and, on a GPU, the measured time, gap and score; (3) on a GPU, whether
registers, spills and shared memory of the GPU-less analysis equal those of the live compile.
Exits with 1 where a time lies under its hard bound or a launch differs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import solkit
from solkit.core import KernelAnalysis, Report, Result
from solkit.report import schema, terminal

ROOT = Path(__file__).parent.parent
EXAMPLES = {
    **{path.stem: (path, None) for path in sorted((ROOT / "examples").glob("*.py"))},
    "kernelbench": (
        ROOT / "examples/kernelbench/candidate.py",
        ROOT / "examples/kernelbench/reference.py",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", help="target; default: this machine's GPU, else h100")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write each page and JSON there")
    options = parser.parse_args()
    console = Console(width=140)

    print_speed(console, options.device or "h100")
    reports = {
        name: solkit.score(path, device=options.device, reference=reference and str(reference))
        for name, (path, reference) in EXAMPLES.items()
    }
    print_scores(console, reports)
    wrong = print_launches(console, reports)
    if options.out:
        write_reports(reports, options.out)
    impossible = [n for n, r in reports.items() for x in r.results if under_hard_bound(x)]
    console.print(f"times under their hard bound: {impossible or 'none'}")
    return 1 if wrong or impossible else 0


def write_reports(reports: dict[str, Report], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, report in reports.items():
        (folder / f"{name}.json").write_text(schema.dumps(report), encoding="utf-8")
        with (folder / f"{name}.txt").open("w", encoding="utf-8") as page:
            terminal.render(report, Console(file=page, width=100), details=True)


def print_speed(console: Console, device: str) -> None:
    matmul = ["score", "examples/matmul.py", "--device", device, "--no-measure"]
    with tempfile.TemporaryDirectory() as cache:
        cold, cached = (command_seconds(matmul, cache) for _ in range(2))
    console.print(f"solkit {' '.join(matmul)}: {cold:.1f} s cold, {cached:.1f} s cached")
    console.print(f"solkit --help: {command_seconds(['--help']):.2f} s")
    started = [time.perf_counter()]
    for path, reference in EXAMPLES.values():
        solkit.bound(path, device, reference=reference and str(reference))
        started.append(time.perf_counter())
    first, *rest = (after - before for before, after in itertools.pairwise(started))
    median = sorted(rest)[len(rest) // 2]
    console.print(f"a bound: {first:.2f} s the first, then {median:.3f} s (median of {len(rest)})")


def command_seconds(arguments: list[str], cache: str | None = None) -> float:
    environment = {**os.environ, **({"TRITON_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, "-m", "solkit", *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)
    return time.perf_counter() - start


def print_scores(console: Console, reports: dict[str, Report]) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for heading in ("example", "shape", "limiter", "roofline ms", "hard ms", "measured ms"):
        right = "right" if heading.endswith("ms") else "left"
        table.add_column(heading, justify=right, no_wrap=True)
    for heading in ("gap", "SOL score", "reference ms", "verdict"):
        table.add_column(heading, justify="left" if heading == "verdict" else "right")
    for name, report in reports.items():
        for result in report.results:
            table.add_row(name, *score_row(result))
    console.print(table)


def score_row(result: Result) -> list[str]:
    shape = " ".join(f"{k}={v}" for k, v in result.shape.items())
    timed, score = result.measurement, result.score
    return [
        shape,
        result.bound.limiter,
        f"{result.bound.time_ms:.4f}",
        f"{result.bound.at.hard_ms:.4f}",
        f"{timed.median_ms:.4f}" if timed else "-",
        f"{score.gap:.3f}" if score else "-",
        f"{score.sol_score:.3f}" if score else "-",
        f"{timed.reference_ms:.4f}" if timed else "-",
        result.verdict.value,
    ]


def under_hard_bound(result: Result) -> bool:
    return result.measurement is not None and (
        result.measurement.median_ms < result.bound.at.hard_ms
    )


def print_launches(console: Console, reports: dict[str, Report]) -> int:
    """How many launches of the live run differ from the GPU-less analysis."""
    compared = [
        (figures(result.analysis.kernels), figures(result.measurement.launches))
        for report in reports.values()
        for result in report.results
        if result.measurement is not None
    ]
    if not compared:
        console.print("no GPU here: launches were not compared with a live compile")
        return 0
    same = sum(analysed == live for analysed, live in compared)
    console.print(f"launches equal to the live compile's: {same} of {len(compared)} results")
    for analysed, live in compared:
        if analysed != live:
            console.print(f"  analysed {analysed}\n  live     {live}")
    return len(compared) - same


def figures(kernels: tuple[KernelAnalysis, ...]) -> list[tuple[object, ...]]:
    return [
        (
            k.launch.name,
            k.launch.grid,
            k.launch.num_warps,
            k.facts.registers,
            k.facts.spills,
            k.facts.shared_bytes,
        )
        for k in kernels
    ]


if __name__ == "__main__":
    sys.exit(main())
