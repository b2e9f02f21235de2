"""How soon `solkit data collect` finds good configurations: its choice, on recorded benches.

    python bench/choosing.py [FILE ...] [--seeds 4]

A space is a kernel at a shape with the measured times of many configurations: those recorded on an
H100 for the kernels of bench/sweeps and the examples, and the brute-forced spaces of FILEs in any
format that `solkit data import` reads. Flat spaces (half of the configurations within 10 % of the
best) are left out: there is nothing to find. The table says for each number of trials in what share
of the runs eight configurations within 10 % of the best were found (or all that there are), and how
much slower the best one found is than the best. Beside it stand the same figures without a search,
each configuration drawn at random.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from solkit.collect import recorded_workloads
from solkit.collect.collector import NEAR_SHARE
from solkit.collect.config_sampler import ENOUGH_NEAR, NEAR, ConfigSampler
from solkit.core import Configuration, Outcome
from solkit.errors import SolkitError
from solkit.measure.benches import HANDFUL, RecordedBench

TRIALS = (16, 24, 32, 48)
RECORDED = Path(__file__).parent / "data" / "sweeps_h100.jsonl.gz"
LEAST = 30  # configurations: fewer are no space to search

Space = Sequence[Outcome]


def spaces(path: Path, device: str | None = None) -> Iterator[Space]:
    """The outcomes with a time of each kernel and shape of a recording."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for row in RecordedBench.read(path, device=device).recording:
        if row.time_ms is not None:
            groups[row.kernel_id, row.problem_id].append(row)
    yield from groups.values()


def searched(space: Space, seed: str) -> list[float]:
    """The times in the order in which a collection finds them."""
    (cell,) = recorded_workloads(space)
    bench, chooser = RecordedBench(space), ConfigSampler(cell.space, {}, seed)
    results: list[float] = []
    while len(results) < min(max(TRIALS), len(space)):
        near = chooser.near(round(NEAR_SHARE * HANDFUL))
        chosen = [*near, *chooser.spread(HANDFUL - len(near))]
        bench.submit([replace(cell.default, params=params) for params, _ in chosen])
        for configuration, outcome in bench.outcomes():
            assert outcome.time_ms is not None
            results.append(outcome.time_ms)
            chooser.note(configuration.params, outcome.time_ms)
    return results


def drawn(space: Space, seed: str) -> list[float]:
    """The times in random order."""
    bench = RecordedBench(space)
    configurations: Sequence[Configuration] = bench.configurations()
    bench.submit(random.Random(seed).sample(configurations, len(configurations)))
    return [outcome.time_ms or 0.0 for _, outcome in bench.outcomes()]


def times(space: Space) -> list[float]:
    """The times of a space, in ms."""
    return [row.time_ms for row in space if row.time_ms is not None]


def figures(space: Space, result: Sequence[float]) -> Mapping[int, tuple[bool, float]]:
    """By number of trials: whether enough good ones were found, and the slowdown."""
    times_ms = times(space)
    good_ms = NEAR * min(times_ms)
    enough = min(ENOUGH_NEAR, sum(time_ms <= good_ms for time_ms in times_ms))
    return {
        trials: (
            sum(time_ms <= good_ms for time_ms in result[:trials]) >= enough,
            min(result[:trials]) * NEAR / good_ms,
        )
        for trials in TRIALS
    }


def main() -> int:
    """Print a line for each way of choosing; 2 where a file cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    try:  # a file may not say which GPU it is of, and it does not matter
        input_spaces = [space for path in options.files for space in spaces(path, "any")]
    except SolkitError as error:
        print(f"choosing: {error}", file=sys.stderr)
        return 2
    chosen = [
        space
        for space in [*spaces(RECORDED), *input_spaces]
        if len(space) >= LEAST and statistics.median(times(space)) > NEAR * min(times(space))
    ]
    table = Table(title=f"{len(chosen)} spaces, {options.seeds} runs of each", title_justify="left")
    for column in ("", *(f"{trials} trials" for trials in TRIALS)):
        table.add_column(column)
    for name, choose in (("search", searched), ("random", drawn)):
        runs = [
            figures(space, choose(space, str(seed)))
            for space in chosen
            for seed in range(options.seeds)
        ]
        cells = [
            f"{statistics.fmean(run[trials][0] for run in runs):.0%}, "
            f"{statistics.fmean(run[trials][1] for run in runs) - 1:.1%} slower"
            for trials in TRIALS
        ]
        table.add_row(name, *cells)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
