"""Does sharing a budget by expected savings pay? Policies on recorded kernels, at equal budgets.

Each round draws kernels and shapes of a shipped set that have at least ``--least`` measured
configurations, gives each a number of calls, and replays every policy with the same budget of GPU
seconds on the recorded bench's virtual clock::

    python bench/portfolio.py --set h100 --tasks 24 --rounds 5

A round's figure is the share of the time that could be saved: calls x (default - best found) over
calls x (default - best recorded), summed over the kernels. The portfolio is SolKit's; peers are
round robin, equal shares (what a kernel does not use is lost), and one kernel after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from solkit.core import Outcome, TuneSettings, canonical
from solkit.datasets.store import shipped
from solkit.measure.benches import RecordedBench
from solkit.pipeline.tuning_context import TuningContext, recorded_ground
from solkit.tuner.bench_driver import drive_bench, first_open
from solkit.tuner.portfolio import PortfolioSettings, choose_round_robin, portfolio_choice
from solkit.tuner.tuning_problem import TuningProblem


@dataclass(frozen=True)
class Cell:
    """A recorded kernel at a shape, with its calls."""

    ground: TuningContext
    calls: float
    default_ms: float
    least_ms: float


def grounds_of(rows: Sequence[Outcome], least: int) -> list[TuningContext]:
    """Kernels and shapes with enough configurations."""
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for row in rows:
        cells.setdefault((row.kernel_id, canonical(row.shape)), []).append(row)
    results = []
    for (kernel, _), own in sorted(cells.items()):
        if len({canonical(row.params) for row in own}) >= least:
            how = TuneSettings(prior=False)
            results.append(recorded_ground(RecordedBench(own), kernel, None, None, how))
    return results


def weighed(
    grounds: Sequence[TuningContext], rows: Sequence[Outcome], chance: random.Random
) -> list[Cell]:
    """Cells with 1 to 1000 calls, log-uniform."""
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row.verdict.is_right and row.time_ms is not None:
            cell = times.setdefault((row.kernel_id, canonical(row.shape)), {})
            cell.setdefault(canonical(row.params), row.time_ms)
    cells = []
    for ground in grounds:
        known_time = times[ground.kernel_id, canonical(ground.default.shape)]
        default = known_time.get(canonical(ground.default.params))
        if default is not None:
            cells.append(
                Cell(ground, 10 ** chance.uniform(0, 3), default, min(known_time.values()))
            )
    return cells


def saved(tasks: Sequence[TuningProblem], cells: Sequence[Cell]) -> float:
    """The share of the saving that was found, by each configuration's first recorded time."""
    won = possible = 0.0
    for task, cell in zip(tasks, cells, strict=True):
        best = task.best
        best_ms = cell.default_ms if best is None or best.time_ms is None else best.time_ms
        won += cell.calls * max(cell.default_ms - best_ms, 0.0)
        possible += cell.calls * (cell.default_ms - cell.least_ms)
    return won / possible


Policy = Callable[[RecordedBench, Sequence[TuningProblem], float], object]


def equal_shares(bench: RecordedBench, tasks: Sequence[TuningProblem], budget_s: float) -> None:
    for task in tasks:
        drive_bench(bench, [task], budget_s / len(tasks))


POLICIES: dict[str, Policy] = {
    "portfolio": lambda b, t, s: drive_bench(b, t, s, portfolio_choice()),
    "greedy": lambda b, t, s: drive_bench(b, t, s, portfolio_choice(PortfolioSettings(turn=0))),
    "round robin": lambda b, t, s: drive_bench(b, t, s, choose_round_robin),
    "equal shares": equal_shares,
    "one by one": lambda b, t, s: drive_bench(b, t, s, first_open),
}


def replayed(
    policy: Policy, cells: Sequence[Cell], rows: Sequence[Outcome], budget_s: float, seed: int
):
    """The share saved, and measurements made."""
    bench = RecordedBench(rows)
    how = TuneSettings(seed=seed)
    tasks = [cell.ground.task(how, weight=cell.calls) for cell in cells]
    policy(bench, tasks, budget_s)
    return saved(tasks, cells), sum(task.measured for task in tasks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--set", default="h100", help="the shipped set")
    parser.add_argument("--tasks", type=int, default=24, help="kernels and shapes in a round")
    parser.add_argument("--least", type=int, default=60, help="configurations that each has")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds",
        type=float,
        nargs="+",
        default=[0.5, 1.0, 2.0],
        help="budget, GPU seconds a task",
    )
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    store = shipped(options.set)
    rows = [replace(r, comparison=None) for r in store.rows(store.where("origin = 'zoo'"))]
    grounds = grounds_of(rows, options.least)
    print(f"{len(grounds)} kernels and shapes of {options.set} have {options.least} configurations")
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(options.rounds):
        chance = random.Random(number)
        cells = weighed(chance.sample(grounds, min(options.tasks, len(grounds))), rows, chance)
        expected = {(c.ground.kernel_id, c.ground.problem_id) for c in cells}
        own = [row for row in rows if (row.kernel_id, row.problem_id) in expected]
        for item in options.seconds:
            for name in options.policies:
                begun = time.perf_counter()
                share, count = replayed(POLICIES[name], cells, own, item * len(cells), number)
                figures.setdefault(f"{item:g}", {}).setdefault(name, []).append(share)
                took_s = time.perf_counter() - begun
                text = f"{share:.3f} of the saving, {count} measured, {took_s:.1f} s"
                print(f"round {number}, {item:g} s a task, {name}: {text}", flush=True)
    print(f"\n{'s a task':>9}" + "".join(f"{name:>15}" for name in options.policies))
    for seconds, by in figures.items():
        print(
            f"{seconds:>9}"
            + "".join(f"{statistics.mean(by[name]):>15.3f}" for name in options.policies)
        )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
