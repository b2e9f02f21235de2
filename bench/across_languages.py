"""How well times of kernels in several languages are predicted and ranked, problem by problem.

    python bench/across_languages.py [h200_languages | STORE ...]

Over correct configurations, by the kernel model and by the shipped surrogate, which has seen no
row of these sets: the share within a factor of 2 of the measured time; Spearman's correlation
within each problem (mean, median, lowest), all languages together and each alone; and of the pairs
of a problem whose times are over 20 % apart, the share whose order is right. Pairs of two languages
are counted apart, too. Configurations of which only the machine code is known have no modelled
time: they are counted, and left out of all figures. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table as Printed

from solkit.core import Depth
from solkit.datasets.store import Store, shipped
from solkit.errors import SolkitError
from solkit.surrogate.model import Surrogate
from solkit.surrogate.table import Table, table_of_stores

FACTOR, APART = 2.0, 1.2
GOALS = {"within 2x": 0.85, "rank correlation": 0.80, "pairs right": 0.85}
ALL = "all together"
_FEWEST = 3
"""Configurations of a problem that have a rank correlation."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """Figures of one group of configurations; NaN where nothing is counted.

    Attributes:
        configurations: that have a predicted time.
        unknown: that have none.
        within: share of predictions within `FACTOR` of the time.
        rank: mean over problems of Spearman's correlation.
        median: of them.
        lowest: of them.
        right: share of pairs over `APART` apart in the right order; equal predictions count half.
        pairs: how many they are.
    """

    configurations: int
    unknown: int
    within: float
    rank: float
    median: float
    lowest: float
    right: float
    pairs: int


def languages_of(table: Table) -> npt.NDArray[np.str_]:
    """Return the language of each row: the first word of its file's name."""
    names = [
        str(name).rpartition("/")[2].partition("_")[0] for name in table.about["implementation"]
    ]
    return np.array(names)


def spearman(one: Numbers, other: Numbers) -> float:
    """Return the rank correlation; ties share the mean of their ranks."""
    first, second = ranks(one), ranks(other)
    if len(one) < _FEWEST or first.std() == 0 or second.std() == 0:
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


def ranks(values: Numbers) -> Numbers:
    """Return the rank of each value, from 0."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[places], np.float64)


def pairs_right(
    times: Numbers, predicted: Numbers, groups: Sequence[str], apart: bool = False
) -> tuple[float, int]:
    """Return how many pairs over `APART` apart are in the right order, and how many there are.

    Args:
        times: of the configurations of one problem.
        predicted: of the same.
        groups: of each.
        apart: count only pairs of two groups.
    """
    right, count = 0.0, 0
    for one, other in itertools.combinations(range(len(times)), 2):
        ratio = times[one] / times[other]
        if (apart and groups[one] == groups[other]) or 1 / APART <= ratio <= APART:
            continue
        count += 1
        difference = predicted[one] - predicted[other]
        right += 0.5 if difference == 0 else float((difference > 0) == (ratio > 1))
    return right, count


def figures(
    times: Numbers, predicted: Numbers, problems: Sequence[str], groups: Sequence[str], apart: bool
) -> Figures:
    """Return the figures of some configurations; for `apart` see `pairs_right`."""
    has = np.isfinite(predicted)
    ratios = predicted[has] / times[has]
    within = np.mean((ratios >= 1 / FACTOR) & (ratios <= FACTOR)) if has.any() else math.nan
    correlations, right, count = [], 0.0, 0
    names, kinds = np.array(problems), np.array(groups)
    for problem in sorted(set(problems)):
        own = has & (names == problem)
        correlations.append(spearman(times[own], predicted[own]))
        one, of = pairs_right(times[own], predicted[own], list(kinds[own]), apart)
        right, count = right + one, count + of
    known_ranks = [value for value in correlations if math.isfinite(value)]
    return Figures(
        int(has.sum()),
        int((~has).sum()),
        float(within),
        float(np.mean(known_ranks)) if known_ranks else math.nan,
        float(np.median(known_ranks)) if known_ranks else math.nan,
        min(known_ranks, default=math.nan),
        right / count if count else math.nan,
        count,
    )


def by_language(
    times: Numbers, predicted: Numbers, problems: Sequence[str], languages: Sequence[str]
) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of each language, of all together, and of pairs of two languages."""
    kinds, names = np.array(languages), np.array(problems)
    for language in sorted(set(languages)):
        own = kinds == language
        rows = times[own], predicted[own], list(names[own]), list(kinds[own])
        yield language, figures(*rows, apart=False)
    yield ALL, figures(times, predicted, problems, languages, apart=False)
    yield "pairs of two languages", figures(times, predicted, problems, languages, apart=True)


def predictions(table: Table) -> Mapping[str, Numbers]:
    """Return predicted times in ms by what predicts them; NaN where only machine code is known."""
    forecasts = Surrogate.load().forecast(table, Depth.COMPILED)
    modelled = np.asarray(table.modelled_ms, np.float64)
    # of machine code alone half of the features are missing: a ranking does not mix the two
    forecast = np.where(np.isnan(modelled), np.nan, forecasts.time_ms)
    return {"kernel model": modelled, "surrogate": forecast}


def main() -> int:
    """Print the figures; returns 1 if a goal is missed, 2 if a set cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["h200_languages"], metavar="SET")
    console, missed = Console(width=140), 0
    for name in parser.parse_args().sets:
        try:
            store = Store(name) if Path(name).is_dir() else shipped(name)
            table = table_of_stores([store])
        except SolkitError as error:
            print(f"across_languages: {error}", file=sys.stderr)
            return 2
        problems, languages = list(map(str, table.about["problem_id"])), list(languages_of(table))
        for by, predicted in predictions(table).items():
            rows = list(by_language(table.time_ms, predicted, problems, languages))
            console.print(printed(f"{name}, {len(set(problems))} problems, by the {by}", rows))
            missed += shortfalls(dict(rows)[ALL])
    return 1 if missed else 0


def shortfalls(reached: Figures) -> int:
    """Return how many goals are missed."""
    values = reached.within, reached.rank, reached.right
    return sum(not value >= goal for value, goal in zip(values, GOALS.values(), strict=True))


def printed(title: str, rows: Sequence[tuple[str, Figures]]) -> Printed:
    """Return the table of one predictor."""
    table = Printed(title=title, title_justify="left")
    heads = ("language", "configurations", "machine code only", *GOALS, "median", "lowest", "pairs")
    for head in heads:
        table.add_column(head, justify="left" if head == "language" else "right")
    for name, row in rows:
        shares = f"{row.within:.1%}", f"{row.rank:.3f}", f"{row.right:.1%}"
        ranks = f"{row.median:.3f}", f"{row.lowest:.3f}"
        counts = str(row.configurations), str(row.unknown)
        table.add_row(name, *counts, *shares, *ranks, f"{row.pairs:,}")
    goals = [f"{goal:.0%}" if "rank" not in name else f"{goal:.2f}" for name, goal in GOALS.items()]
    table.add_row("goal", "", "", *goals, "", "", "")
    return table


if __name__ == "__main__":
    sys.exit(main())
