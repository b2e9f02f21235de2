"""What each part of the surrogate gives: figures on what it has not seen, with one part left out.

    python bench/ablation.py                                   # compiled, families: some minutes
    python bench/ablation.py --depth lowered --split kinds
    python bench/ablation.py --table                           # as a table for docs/surrogate.md

Each variant is learned from the shipped sets and tried on the rows of a split that were left out.
Most are a single model: compare them with ``one model``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import get_context

import numpy as np

from solkit.core import Depth
from solkit.datasets.shipped import LEARNED_FROM
from solkit.datasets.store import shipped
from solkit.surrogate.evaluation.evaluate import judged
from solkit.surrogate.evaluation.splits import SPLITS, folds_of
from solkit.surrogate.features import GROUPS
from solkit.surrogate.table import Table, table_of
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    Forecasts,
    Settings,
    columns_of,
    ensemble,
    is_modelled,
)

ONE = replace(DEFAULTS, members=1)

Variant = tuple[str, Settings, Callable[[Table], Table], Callable[[Belief], np.ndarray]]


def same(table: Table) -> Table:
    return table


def from_roofline(table: Table) -> Table:
    """Relative to the speed of light in place of the modelled time, which stays a feature."""
    return replace(table, modelled_ms=table.sol_ms)


def drawn(belief: Belief) -> np.ndarray:
    return belief.mean


def plain(belief: Belief) -> np.ndarray:
    return belief.told


VARIANTS: tuple[Variant, ...] = (
    ("kernel model", ONE, same, lambda belief: np.zeros(len(belief.told))),
    ("one model", ONE, same, drawn),
    *(
        (f"one model without {group}", replace(ONE, leave_out=(group,)), same, drawn)
        for group in GROUPS
    ),
    ("one model, of the time over SOL", ONE, from_roofline, drawn),
    ("one model, fast rows weigh as others", replace(ONE, focus=0.0), same, drawn),
    ("one model, crowds weigh by their rows", replace(ONE, crowd=0.0), same, drawn),
    ("one model, 4 rows of a kernel and shape", replace(ONE, most=4), same, drawn),
    ("one model, 64 rows of a kernel and shape", replace(ONE, most=64), same, drawn),
    ("one model, 16 leaves", replace(ONE, leaves=16), same, drawn),
    ("ensemble, plain mean", DEFAULTS, same, plain),
    ("ensemble, drawn to the kernel model", DEFAULTS, same, drawn),
)


def left_out(table: Table, split: str, variant: Variant) -> Forecasts:
    """Forecasts of the rows that were left out."""
    _, settings, based, told = variant
    table = based(table)
    time_ms = np.full(len(table), np.nan)
    for fold in folds_of(table, split):
        if len(fold.train) and len(fold.test):
            asked = table[fold.test]
            names, members = ensemble(table[fold.train], settings)
            values = columns_of(asked, names)
            parts = np.array([each.predict(values) for each in members])
            mean = told(Belief.of(parts, is_modelled(asked)))
            time_ms[fold.test] = asked.base_ms * 2.0**mean
    return Forecasts.of(time_ms)


def line(name: str, table: Table, told: Forecasts, as_table: bool) -> str:
    found = judged(table, told)
    cells = [name]
    for kind in ("problem", "kernel"):
        each = found.pools[kind]
        cells.append(f"{each.spearman_median:.3f}/{each.spearman_p10:.2f}".replace("0.", "."))
        cells.append("/".join(f"{100 * regret:.2g}" for regret in each.regrets.values()))
    cells.append(f"{100 * found.time_error:.3g} %")
    return f"| {' | '.join(cells)} |" if as_table else "  ".join(f"{each:<24}" for each in cells)


def figures(table: Table, as_table: bool) -> Iterator[str]:
    with get_context("fork").Pool() as pool:
        jobs = [(each[0], pool.apply_async(_job, (place,))) for place, each in enumerate(VARIANTS)]
        for name, job in jobs:
            yield line(name, table, job.get(), as_table)


_asked: tuple[Table, str] | None = None


def _job(place: int) -> Forecasts:
    assert _asked is not None
    return left_out(*_asked, VARIANTS[place])


def main() -> int:
    global _asked
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--depth", choices=[each.value for each in Depth], default="compiled")
    parser.add_argument("--split", choices=SPLITS, default="families")
    parser.add_argument("--table", action="store_true", help="as Markdown")
    asked = parser.parse_args()
    table = table_of([shipped(name) for name in LEARNED_FROM], Depth(asked.depth))
    _asked = table, asked.split
    for each in figures(table, asked.table):
        print(each, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
