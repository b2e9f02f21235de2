"""What each part of the surrogate gives: figures on what it has not seen, with one part left out.

    python bench/ablation.py                                   # compiled, families: some minutes
    python bench/ablation.py --depth lowered --split kinds
    python bench/ablation.py --curve                           # by how many families are known
    python bench/ablation.py --table                         # as a table for docs/lab/surrogate.md

Each variant is learned from the shipped sets and tried on the rows of a split that were left out.
Most are a single model: compare them with ``one model``. The learning curve is of single models,
too. It shows what more families give, and beside them what more rows of each kernel and shape give.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from solkit.core import SOURCE_DEPTHS, Depth
from solkit.datasets.shipped import LEARNED_FROM
from solkit.datasets.store import shipped
from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
from solkit.surrogate.evaluation.splits import SPLITS, split_into_folds
from solkit.surrogate.features import GROUPS
from solkit.surrogate.table import Table, table_of_stores
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    Forecasts,
    Settings,
    columns_of,
    grow_ensemble,
    is_modelled,
)

ONE = replace(DEFAULTS, members=1)


def same(table: Table) -> Table:
    return table


def from_roofline(table: Table) -> Table:
    """Relative to the speed of light in place of the modelled time, which stays a feature."""
    return replace(table, modelled_ms=table.sol_ms)


def drawn(belief: Belief) -> np.ndarray:
    return belief.mean


def plain(belief: Belief) -> np.ndarray:
    return belief.member_mean


def nothing(belief: Belief) -> np.ndarray:
    return np.zeros(len(belief.member_mean))


@dataclass(frozen=True)
class Variant:
    """One way to learn, and to forecast.

    Attributes:
        based: changes what forecasts are relative to.
        told: what is made of what the models say.
        share: of the families that may be known; they are drawn by a hash of their names.
    """

    name: str
    settings: Settings = ONE
    based: Callable[[Table], Table] = same
    told: Callable[[Belief], np.ndarray] = drawn
    share: float = 1.0


VARIANTS = (
    Variant("kernel model", told=nothing),
    Variant("one model"),
    *(Variant(f"one model without {group}", replace(ONE, leave_out=(group,))) for group in GROUPS),
    Variant("one model, of the time over SOL", based=from_roofline),
    Variant("one model, fast rows weigh as others", replace(ONE, focus=0.0)),
    Variant("one model, crowds weigh by their rows", replace(ONE, crowd=0.0)),
    Variant("one model, 4 rows of a kernel and shape", replace(ONE, most=4)),
    Variant("one model, 64 rows of a kernel and shape", replace(ONE, most=64)),
    Variant("one model, 16 leaves", replace(ONE, leaves=16)),
    Variant("ensemble, plain mean", DEFAULTS, told=plain),
    Variant("ensemble, drawn to the kernel model", DEFAULTS),
)

CURVE = (
    *(Variant(f"{share:.1%} of the families", share=share) for share in (0.125, 0.25, 0.5)),
    Variant("all families"),
    *(
        Variant(f"all families, {most} rows of each", replace(ONE, most=most))
        for most in (1, 2, 4, 8)
    ),
)


def known_of(table: Table, share: float) -> np.ndarray:
    """The rows of so many of the families, (rows,)."""

    def chance(family: str) -> float:
        return int(hashlib.sha256(f"curve {family}".encode()).hexdigest()[:8], 16) / 16**8

    names, place = np.unique(table.about["family"], return_inverse=True)
    return np.array([chance(str(name)) < share for name in names])[place]


def left_out(table: Table, split: str, variant: Variant) -> Forecasts:
    """Forecasts of the rows that were left out."""
    table = variant.based(table)
    time_ms = np.full(len(table), np.nan)
    for fold in split_into_folds(table, split):
        if len(fold.train) and len(fold.test):
            options, known_value = table[fold.test], table[fold.train]
            known_value = known_value[np.flatnonzero(known_of(known_value, variant.share))]
            names, members = grow_ensemble(known_value, variant.settings)
            values = columns_of(options, names)
            parts = np.array([member.predict(values) for member in members])
            mean = variant.told(Belief.from_members(parts, is_modelled(options)))
            time_ms[fold.test] = options.base_ms * 2.0**mean
    return Forecasts.from_times(time_ms)


def line(name: str, table: Table, forecasts: Forecasts, as_table: bool) -> str:
    results = evaluate_forecasts(table, forecasts)
    cells = [name]
    for kind in ("problem", "kernel"):
        pool = results.pools[kind]
        cells.append(f"{pool.spearman_median:.3f}/{pool.spearman_p10:.2f}".replace("0.", "."))
        cells.append("/".join(f"{100 * regret:.2g}" for regret in pool.regrets.values()))
    cells.append(f"{100 * results.time_error:.3g} %")
    return f"| {' | '.join(cells)} |" if as_table else "  ".join(f"{cell:<24}" for cell in cells)


def figures(table: Table, variants: tuple[Variant, ...], as_table: bool) -> Iterator[str]:
    with get_context("fork").Pool() as pool:
        jobs = [(variant.name, pool.apply_async(_job, (variant,))) for variant in variants]
        for name, job in jobs:
            yield line(name, table, job.get(), as_table)


_asked: tuple[Table, str] | None = None


def _job(variant: Variant) -> Forecasts:
    assert _asked is not None
    return left_out(*_asked, variant)


def main() -> int:
    global _asked
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--depth",
        choices=[source_depth.value for source_depth in SOURCE_DEPTHS],
        default="compiled",
    )
    parser.add_argument("--split", choices=SPLITS, default="families")
    parser.add_argument("--curve", action="store_true", help="the learning curve instead")
    parser.add_argument("--table", action="store_true", help="as Markdown")
    options = parser.parse_args()
    table = table_of_stores([shipped(name) for name in LEARNED_FROM], Depth(options.depth))
    _asked = table, options.split
    for figure in figures(table, CURVE if options.curve else VARIANTS, options.table):
        print(figure, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
