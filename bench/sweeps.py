"""Hold the kernel model against configurations of many kernels that were measured on a GPU.

    python bench/sweeps.py collect --out sweeps.jsonl --seconds 300    # on a GPU
    python bench/sweeps.py evaluate sweeps.jsonl                       # anywhere
    python bench/sweeps.py analyse --count 8                           # with no measurement

The kernels are ``bench/sweeps/*.py`` and the examples, each at all its shapes. ``collect`` takes 40
configurations of each (the default one and others at random, always the same ones) and writes one
JSON line per configuration; the next run with the same ``--out`` goes on where one was cut.
`sweeps_gpu` says how they are timed.

``evaluate`` prints, for each kernel and shape, Spearman's rank correlation between the modelled and
the measured times, the share of times that the model has within a factor of 2, and the regret of
its choice: the measured time of the configuration that it would pick, over the best one's; beside
it what simpler figures would say. Exits with 1 where a target is missed, with 2 where there is no
GPU to time on. ``--keep FILE`` keeps what compiling told (a pickle): with it only the formula is
computed anew.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from solkit import worker
from solkit.core import Device, KernelAnalysis
from solkit.roofline.calibration import calibrated
from solkit.roofline.devices import find
from solkit.roofline.kernel_model import ahead, model

if TYPE_CHECKING:
    from sweeps_jobs import Analysed, Space

ROOT = Path(__file__).parent.parent
FILES = (*sorted((ROOT / "bench/sweeps").glob("*.py")), *sorted((ROOT / "examples").glob("*.py")))
COUNT = 40
OK = "correct"
SPEARMAN, WITHIN_TWO = 0.6, 0.8  # what the model must reach
_ANALYSE_S = 1800.0

Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    device = calibrated(find(options.device))
    if options.command == "collect":
        import sweeps_gpu  # brings torch

        wanted = plan(options.files, options.count)
        return sweeps_gpu.collect(wanted, device, options.out, options.seconds, options.workers)
    measured = options.command == "evaluate"
    rows = read(options.measured) if measured else plan(options.files, options.count)
    problems = (
        analysed(key, group, device, options.keep) for key, group in by_problem(rows).items()
    )
    if measured:
        return print_evaluation(list(problems), device)
    print_forecasts(problems, device)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="h100", help="what is analysed for; default: h100")
    commands = parser.add_subparsers(dest="command", required=True)
    collect = commands.add_parser("collect", help="time configurations on this machine's GPU")
    collect.add_argument("--out", type=Path, required=True, metavar="FILE")
    collect.add_argument("--seconds", type=float, default=300.0, help="stop then; default: 300")
    collect.add_argument("--workers", type=int, help="that compile; default: cores less two")
    evaluate = commands.add_parser("evaluate", help="hold the model against what was measured")
    evaluate.add_argument("measured", type=Path, metavar="FILE")
    analyse = commands.add_parser("analyse", help="what the model says, and what it had to guess")
    for command in (collect, analyse):
        command.add_argument("--count", type=int, default=COUNT, help="configurations a kernel")
        command.add_argument("--files", type=Path, nargs="+", default=FILES, metavar="KERNEL")
    for command in (evaluate, analyse):
        command.add_argument("--keep", type=Path, metavar="FILE", help="keep analyses there")
    return parser.parse_args(arguments)


# --------------------------------------------------------------------------------------- choosing


def plan(files: Iterable[Path], count: int) -> list[Row]:
    """The configurations to look at: file, shape and params of each."""
    from sweeps_jobs import choose

    rows = []
    for path in files:
        name = path.resolve().relative_to(ROOT).as_posix()
        spaces: tuple[Space, ...] = worker.call("sweeps_jobs:space_of", str(path.resolve()))
        for space in spaces:
            chosen = choose(space, count, f"{name} {json.dumps(space.shape)}")
            rows += [{"file": name, "shape": space.shape, "params": each} for each in chosen]
    return rows


def key_of(row: Row) -> str:
    """What tells configurations apart."""
    return json.dumps([row["file"], row["shape"], row["params"]], sort_keys=True)


def by_problem(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by file and shape, in the order of their first appearance."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["file"], json.dumps(row["shape"], sort_keys=True)), []).append(row)
    return found


def read(path: Path) -> list[Row]:
    """The configurations that were timed, the last time of each."""
    rows = [row for row in lines(path) if row["kind"] == "time"]
    return list({key_of(row): row for row in rows}.values())


def lines(path: Path) -> list[Row]:
    """All that was written, also if gzipped since; a last line that was cut is none."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.split("\n")[:-1]]


# -------------------------------------------------------------------------------------- analysing


@dataclass(frozen=True)
class Problem:
    """A kernel at a shape, with its configurations.

    Attributes:
        name: of the kernel file.
        shape: as text.
        rows: what was measured, or is wanted.
        found: what the analysis says of them, in their order.
    """

    name: str
    shape: str
    rows: Sequence[Row]
    found: Analysed

    @property
    def kernels(self) -> list[tuple[KernelAnalysis, ...]]:
        """The launches of each configuration."""
        return [analysis.kernels for analysis in self.found.analyses]


def analysed(
    key: tuple[str, str], rows: Sequence[Row], device: Device, keep: Path | None
) -> Problem:
    """Analyse a problem's configurations, or take it from what was kept."""
    kept: dict[str, Analysed] = {}
    if keep is not None and keep.exists():
        kept = pickle.loads(keep.read_bytes())
    file, shape = key
    name = json.dumps([file, shape, [row["params"] for row in rows]])
    if name not in kept:
        given = rows[0]["shape"], [row["params"] for row in rows], device
        job = str(ROOT / file), *given
        kept[name] = worker.call("sweeps_jobs:analyse", *job, timeout_s=_ANALYSE_S)
        if keep is not None:
            keep.write_bytes(pickle.dumps(kept))
    told = " ".join(f"{size}={value}" for size, value in rows[0]["shape"].items())
    return Problem(Path(file).stem, told, rows, kept[name])


def modelled_ms(kernels: Sequence[KernelAnalysis], device: Device) -> float:
    """What all launches take by the formula, computed anew; NaN where one was not followed."""
    if not kernels or any(k.demand is None or k.occupancy is None for k in kernels):
        return math.nan
    return sum(model(k, device).time_ms * k.launch.count for k in kernels)


def print_forecasts(problems: Iterable[Problem], device: Device) -> None:
    print("| kernel | shape | configurations | modelled µs | hard bound µs | below | s each |")
    print("|---|---|---:|---|---:|---:|---:|")
    notes: dict[str, None] = {}
    for each in problems:
        times = [modelled_ms(kernels, device) for kernels in each.kernels]
        known, hard_ms = [t for t in times if not math.isnan(t)], each.found.bound.at.hard_ms
        span = f"{1e3 * min(known):.4g} to {1e3 * max(known):.4g}" if known else "none"
        below = sum(t < hard_ms for t in known)
        print(
            f"| {each.name} | {each.shape} | {len(known)} of {len(times)} | {span} | "
            f"{1e3 * hard_ms:.4g} | {below} | {median(each.found.seconds):.2f} |",
            flush=True,
        )
        for analysis in each.found.analyses:
            notes.update({f"{each.name}: {note}": None for note in analysis.notes})
            failed = [f"{each.name}: {k.error}" for k in analysis.kernels if k.error]
            notes.update(dict.fromkeys(failed))
    print("\n" + "\n".join(f"- {note}" for note in notes))


# ------------------------------------------------------------------------------------- evaluating


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in their order, from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            found[i] = (start + 1 + end) / 2
        start = end
    return found


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Pearson's correlation of the ranks; 0 where one side is all alike."""
    a, b = ranks(left), ranks(right)
    middle = (len(a) + 1) / 2
    both = sum((x - middle) * (y - middle) for x, y in zip(a, b))
    size = math.sqrt(sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b))
    return both / size if size else 0.0


def regret(predicted: Sequence[float], measured: Sequence[float], picks: int = 1) -> float:
    """The best measured time of those predicted to be least, over the best of all.

    Among equal predictions the worse is taken.
    """
    order = sorted(range(len(measured)), key=lambda i: (predicted[i], -measured[i]))
    return min(measured[i] for i in order[:picks]) / min(measured)


@dataclass(frozen=True)
class Evaluation:
    """How the model fares on a problem.

    Attributes:
        spread: the slowest measured time over the fastest.
        spearman: of the modelled times.
        within_two: share of the times within a factor of 2.
        ratio: median of modelled over measured.
        regret, regret_of_five: of the first choice, and of the best of five.
        default_regret: of the first configuration that was right: the kernel file's own, but for
            a default that failed.
        below_hard: modelled times under the hard bound.
        others: Spearman of simpler figures, by name.
    """

    problem: Problem
    count: int
    spread: float
    spearman: float
    within_two: float
    ratio: float
    regret: float
    regret_of_five: float
    default_regret: float
    below_hard: int
    others: Mapping[str, float]

    @property
    def figures(self) -> tuple[float, ...]:
        """Those of the table that have a median."""
        own = self.spread, self.spearman, self.within_two, self.ratio
        return (*own, self.regret, self.regret_of_five, self.default_regret)


def evaluate(problem: Problem, device: Device) -> Evaluation | None:
    """Hold the model against what was measured; ``None`` with fewer than three times."""
    pairs = [
        (row["median_ms"], modelled_ms(kernels, device), kernels)
        for row, kernels in zip(problem.rows, problem.kernels, strict=True)
        if row["status"] == OK
    ]
    pairs = [pair for pair in pairs if not math.isnan(pair[1])]
    if len(pairs) < 3:
        return None
    measured, raw, kernels = zip(*pairs)
    hard_ms = problem.found.bound.at.hard_ms
    times = [max(time_ms, hard_ms) for time_ms in raw]
    ratios = [time_ms / real for time_ms, real in zip(times, measured)]
    return Evaluation(
        problem=problem,
        count=len(pairs),
        spread=max(measured) / min(measured),
        spearman=spearman(times, measured),
        within_two=mean(0.5 <= ratio <= 2 for ratio in ratios),
        ratio=median(ratios),
        regret=regret(times, measured),
        regret_of_five=regret(times, measured, 5),
        default_regret=measured[0] / min(measured),
        below_hard=sum(time_ms < hard_ms for time_ms in raw),
        others={
            name: spearman([figure(each) for each in kernels], measured)
            for name, figure in FIGURES.items()
        },
    )


def _largest(kernels: Sequence[KernelAnalysis]) -> KernelAnalysis:
    """The launch that asks for most bytes."""
    return max(kernels, key=lambda k: _requested(k) * k.launch.count)


def _requested(kernel: KernelAnalysis) -> float:
    assert kernel.demand is not None
    return sum(access.requested_bytes for access in kernel.demand.accesses)


def _traffic(kernels: Sequence[KernelAnalysis]) -> float:
    """Bytes to and from L2, over all launches."""
    return sum(
        (k.demand.l2_read_bytes + k.demand.l2_write_bytes) * k.launch.count
        for k in kernels
        if k.demand is not None
    )


def _waves(kernels: Sequence[KernelAnalysis]) -> float:
    occupancy = _largest(kernels).occupancy
    assert occupancy is not None
    return math.ceil(occupancy.waves) / occupancy.waves


def _idle_warps(kernels: Sequence[KernelAnalysis]) -> float:
    occupancy = _largest(kernels).occupancy
    assert occupancy is not None
    return -occupancy.fraction


def _under_way(kernels: Sequence[KernelAnalysis]) -> float:
    """Bytes that an SM's blocks ask for before they wait; the more the better."""
    kernel = _largest(kernels)
    assert kernel.occupancy is not None
    assert kernel.demand is not None
    blocks = math.prod(kernel.launch.grid)
    each = _requested(kernel) / blocks / max(kernel.demand.steps, 1.0)
    return -each * kernel.occupancy.blocks_per_sm * ahead(kernel)


FIGURES: Mapping[str, Callable[[Sequence[KernelAnalysis]], float]] = {
    "L2 bytes": _traffic,
    "tail": _waves,
    "occupancy": _idle_warps,
    "bytes under way": _under_way,
}
"""Simpler figures by which one might rank configurations, less being better."""


def print_evaluation(problems: Sequence[Problem], device: Device) -> int:
    """The table and what the targets say; the exit code."""
    found = [each for problem in problems if (each := evaluate(problem, device)) is not None]
    if not found:
        print("nothing was measured")
        return 1
    heads = (
        *("kernel", "shape", "n", "spread", "Spearman", "within 2×", "ratio", "regret", "of 5"),
        *("default", "below hard", *FIGURES),
    )
    print("| " + " | ".join(heads) + " |")
    print("|---|---" + "|---:" * (len(heads) - 2) + "|")
    for each in found:
        print("| " + " | ".join([each.problem.name, each.problem.shape, *_cells(each)]) + " |")
    print_medians(found)
    print_speed(problems, device)
    unmodelled = [
        f"{problem.name} {problem.shape}"
        for problem in problems
        for kernels in problem.kernels
        if math.isnan(modelled_ms(kernels, device))
    ]
    print(f"not modelled: {len(unmodelled)} configurations {sorted(set(unmodelled)) or ''}")
    return print_targets(found)


def _cells(each: Evaluation) -> Iterator[str]:
    yield str(each.count)
    yield from (f"{value:.2f}" for value in each.figures)
    yield str(each.below_hard)
    yield from (f"{value:.2f}" for value in each.others.values())


def print_medians(found: Sequence[Evaluation]) -> None:
    own = [f"{median(column):.2f}" for column in zip(*(each.figures for each in found))]
    others = [f"{median(each.others[name] for each in found):.2f}" for name in FIGURES]
    total, below = sum(e.count for e in found), sum(e.below_hard for e in found)
    print(f"| **median** | | {total} | " + " | ".join([*own, str(below), *others]) + " |\n")


def print_speed(problems: Sequence[Problem], device: Device) -> None:
    kernels = [k for p in problems for ks in p.kernels for k in ks if k.demand and k.occupancy]
    start = time.perf_counter()
    for kernel in kernels:
        model(kernel, device)
    each_us = 1e6 * (time.perf_counter() - start) / max(len(kernels), 1)
    seconds = [s for p in problems for s in p.found.seconds]
    print(
        f"model: {each_us:.1f} µs an evaluation; analysis: {1e3 * median(seconds):.0f} ms (median; "
        f"longest {max(seconds):.2f} s), compiling included where it was not cached"
    )


def print_targets(found: Sequence[Evaluation]) -> int:
    """Says whether the targets are reached; 1 where one is missed."""
    middle = median(e.spearman for e in found)
    within = sum(e.within_two * e.count for e in found) / sum(e.count for e in found)
    problems = mean(e.within_two >= 0.5 for e in found)
    print(f"median Spearman: {middle:.2f} (target {SPEARMAN})")
    print(f"within a factor of 2: {within:.0%} of all times (target {WITHIN_TWO:.0%})")
    print(f"problems most of whose times are within a factor of 2: {problems:.0%}")
    return int(middle < SPEARMAN or within < WITHIN_TWO)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
