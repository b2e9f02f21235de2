"""How soon `solkit data collect` finds good configurations: its choice, on recorded spaces.

    python bench/choosing.py [T4 FILE ...] [--seeds 4]

A space is a kernel at a shape with the measured times of many configurations: those recorded on an
H100 for bench/sweeps.py, and whatever brute-forced spaces are given as T4 files. Flat ones (half of
the configurations within 10 % of the best) are left out: there is nothing to find. Told, after so
many trials: in how many of the runs eight configurations within 10 % of the best were found (or all
that there are), and how much slower the best found is than the best. Beside it the same trials with
no search, each configuration drawn at random.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from solkit.collect.choice import ENOUGH_NEAR, NEAR, Chooser, Params
from solkit.collect.collector import HANDFUL, NEAR_SHARE
from solkit.datasets.formats import Labels, read
from solkit.datasets.record import canonical
from solkit.errors import SolkitError

TRIALS = (16, 24, 32, 48)
RECORDED = Path(__file__).parent / "data" / "sweeps_h100.jsonl.gz"
LEAST = 30  # configurations: fewer are no space to search

Space = Sequence[tuple[Params, float]]


def recorded(path: Path) -> Iterator[Space]:
    """The spaces of `sweeps_gpu.py`'s file."""
    spaces: dict[str, list[tuple[Params, float]]] = defaultdict(list)
    with gzip.open(path, "rt") as file:
        for row in map(json.loads, file):
            if row.get("median_ms"):
                spaces[f"{row['file']} {row['shape']}"].append((row["params"], row["median_ms"]))
    yield from spaces.values()


def brute_forced(path: Path) -> Iterator[Space]:
    """The spaces of a T4 file."""
    spaces: dict[str, list[tuple[Params, float]]] = defaultdict(list)
    for row in read(path, labels=Labels(device="a100")).rows:  # whichever it is
        if row.time_ms is not None:
            spaces[f"{row.kernel_id} {row.problem_id} {row.device}"].append(
                (row.params, row.time_ms)
            )
    yield from spaces.values()


def searched(space: Space, seed: str) -> list[float]:
    """The times in the order in which a collection would come by them."""
    times = {canonical(params): time_ms for params, time_ms in space}
    chooser = Chooser([params for params, _ in space], {}, seed)
    found: list[float] = []
    while len(found) < min(max(TRIALS), len(times)):
        near = chooser.near(round(NEAR_SHARE * HANDFUL))
        for params, _ in [*near, *chooser.spread(HANDFUL - len(near))]:
            found.append(times[canonical(params)])
            chooser.note(params, found[-1])
    return found


def drawn(space: Space, seed: str) -> list[float]:
    """The times in random order."""
    return [time_ms for _, time_ms in random.Random(seed).sample(space, len(space))]


def figures(space: Space, found: Sequence[float]) -> Mapping[int, tuple[bool, float]]:
    """After so many trials: whether enough good ones were found, and the slowdown."""
    good_ms = NEAR * min(time_ms for _, time_ms in space)
    enough = min(ENOUGH_NEAR, sum(time_ms <= good_ms for _, time_ms in space))
    return {
        trials: (
            sum(time_ms <= good_ms for time_ms in found[:trials]) >= enough,
            min(found[:trials]) * NEAR / good_ms,
        )
        for trials in TRIALS
    }


def main() -> int:
    """Print a line for each way of choosing; 2 where a file cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="T4")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    try:
        given = [space for path in options.files for space in brute_forced(path)]
    except SolkitError as error:
        print(f"choosing: {error}", file=sys.stderr)
        return 2
    spaces = [
        space
        for space in [*recorded(RECORDED), *given]
        if len(space) >= LEAST
        and statistics.median(t for _, t in space) > NEAR * min(t for _, t in space)
    ]
    table = Table(title=f"{len(spaces)} spaces, {options.seeds} runs of each", title_justify="left")
    for column in ("", *(f"{trials} trials" for trials in TRIALS)):
        table.add_column(column)
    for name, choose in (("search", searched), ("random", drawn)):
        runs = [
            figures(space, choose(space, str(seed)))
            for space in spaces
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
