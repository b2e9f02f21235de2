"""What the language regressor adds to the trees, on kernels that neither has seen.

    python bench/language.py tables TABLES                   # of the shipped sets, some minutes
    python bench/language.py folds TABLES OUT --split families --depth captured [--folds 0 1]
    python bench/language.py whole TABLES OUT --depth captured    # of all rows
    python bench/language.py judge TABLES OUT --split families --depth captured
    python bench/language.py speed TABLES                    # of the default model, on a CPU

TABLES is a folder with a file for each depth. `folds` trains a model for each fold and writes its
forecasts to OUT; `whole` trains one on all rows. What is there is not trained again. A folder of
OUT serves `solkit train --language --work` as well. Both want a GPU.
`--numbers-only` hides the texts, `--text-only` the numbers, `--backbone PATH` takes a model of
transformers in place of the default one. `judge` needs no GPU. It trains the trees on the same
folds, stacks both, and prints: Spearman (median and tenth percentile) in problem and kernel pools,
regret of the first 1, 3, 5 and 8, time error, pairs, Spearman of time over all rows; then the
differences to the trees with 95 % intervals of a paired bootstrap over families. A stack's weights
for a fold are learned on the others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from paired import paired_bootstrap

from solkit.core import SOURCE_DEPTHS, Depth
from solkit.datasets.shipped import LEARNED_FROM
from solkit.datasets.store import shipped
from solkit.surrogate.ensemble import RegressorSettings, train_on_all_rows
from solkit.surrogate.evaluation import language
from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
from solkit.surrogate.evaluation.pools import KINDS, draw_pools
from solkit.surrogate.evaluation.regret_metrics import FIRST, spearman
from solkit.surrogate.evaluation.splits import FOLDS, split_into_folds
from solkit.surrogate.table import Table, table_of_stores
from solkit.surrogate.trees import (
    DEFAULTS,
    Belief,
    Forecasts,
    columns_of,
    grow_ensemble,
    is_modelled,
    log2_target,
)

CONFIGURATIONS = 1000


def tables(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stores = [shipped(name) for name in LEARNED_FROM]
    for depth in SOURCE_DEPTHS:
        table_of_stores(stores, depth).save(folder / f"{depth.value}.npz")
        print(f"{depth.value} done", flush=True)


# ---------------------------------------------------------------------------------- the language


def train(options: argparse.Namespace) -> None:
    from solkit.surrogate.language.training import compiled_facts

    table, compiled = load(options), options.tables / "compiled.npz"
    facts = compiled_facts(table, Table.load(compiled)) if compiled.exists() else None
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    if options.what == "whole":
        train_on_all_rows(table, reading(options), facts=facts, folder=folder(options), tell=say)
        print(f"{options.name}: all rows, {time.monotonic() - began:.0f} s", flush=True)
        return
    result = language.forecast_left_out(
        table, options.split, reading(options), facts=facts, folds=options.folds,
        folder=folder(options), tell=say,
    )  # fmt: skip
    error = np.abs(result - log2_target(table))
    ratio = float(np.expm1(np.nanmedian(error) * np.log(2)))
    print(f"{options.name}: error {ratio:.3f}, {time.monotonic() - began:.0f} s", flush=True)


def load(options: argparse.Namespace) -> Table:
    """The table of a depth, without what a variant hides."""
    table = Table.load(options.tables / f"{options.depth}.npz")
    if getattr(options, "text_only", False):
        table = replace(table, values=np.full_like(table.values, np.nan))
    if getattr(options, "numbers_only", False):
        table = replace(table, sources={})
    return table


def reading(options: argparse.Namespace) -> RegressorSettings:
    from solkit.surrogate.language.regressor import Shape
    from solkit.surrogate.language.training import Learning, Pretraining

    learning = Learning(
        passes=options.passes, order=options.order, facts=options.facts, rate=options.rate,
        variants=options.variants, unread=options.unread,
        unknown=options.unknown, decay=options.decay, most=options.most, beside=options.beside,
        rows=options.rows, graphs=options.graphs, seed=options.seed,
    )  # fmt: skip
    shape = Shape(
        vocabulary=options.vocabulary, width=options.width, layers=options.layers,
        most=options.most,
        decoder={"width": options.decoder, "layers": options.blocks, "dropout": options.dropout,
                 "latents": options.latents, "narrow": options.narrow},
    )  # fmt: skip
    wants = options.pretraining and not options.backbone and not options.numbers_only
    before = Pretraining(steps=options.pretraining, most=options.most) if wants else None
    return RegressorSettings(
        shape, learning, before, backbone=options.backbone, adapt=options.adapt, seed=options.seed
    )


def folder(options: argparse.Namespace) -> Path:
    return Path(options.out, options.name, options.depth)


def speed(options: argparse.Namespace) -> None:
    """Seconds to load the default model, and to forecast 1,000 configurations of one kernel.

    Its weights are as they were drawn: what it says does not matter here.
    """
    from solkit.surrogate.language.regressor import LanguageRegressor

    table = Table.load(options.tables / "captured.npz")
    new_regressor = LanguageRegressor(device="cpu")
    new_regressor.prepared(table)
    ids, counts = np.unique(table.about["kernel_id"], return_counts=True)
    rows = np.flatnonzero(table.about["kernel_id"] == ids[np.argmax(counts)])
    many = table[np.resize(rows, CONFIGURATIONS)]
    with tempfile.TemporaryDirectory() as folder:
        new_regressor.save(folder)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        began = time.perf_counter()
        model = LanguageRegressor.load(folder)
        loaded_s = time.perf_counter() - began
    began = time.perf_counter()
    model.forecast(many)
    first_s = time.perf_counter() - began
    print(f"{size / 1e6:.1f} MB, loaded in {loaded_s:.2f} s; {CONFIGURATIONS:,} configurations of "
          f"{ids[np.argmax(counts)][:8]} in {first_s:.2f} s")  # fmt: skip


# ------------------------------------------------------------------------------------ judging


def judge(options: argparse.Namespace) -> None:
    table = load(options)
    alone = language.forecast_left_out(
        table, options.split, RegressorSettings(), folds=(), folder=folder(options)
    )
    rows = np.flatnonzero(~np.isnan(alone))
    if not len(rows):
        sys.exit(f"nothing to judge: {folder(options)} holds no folds of {options.split}")
    grown = trees(options, table, alone)
    both = language.stack_forecasts(
        table, options.split, Forecasts.from_times(table.base_ms * 2.0**grown), alone
    )
    forecasts = {"trees": grown, "language": alone, "stacked": both}
    times = {name: table.base_ms * 2.0**forecast for name, forecast in forecasts.items()}
    families = len(set(table.about["family"][rows]))
    print(f"{len(rows):,} rows of {families} families, {options.split}, {options.depth}")
    for name, time_ms in times.items():
        print(f"{name:9}", figures(table, time_ms, rows))
    pooled = spearman(table.sol_ms[rows], table.time_ms[rows])
    print(f"speed of light alone: Spearman of time {pooled:.3f}")
    for kind in KINDS:
        pools = list(draw_pools(table, kind, rows))
        for name in ("language", "stacked"):
            comparison = paired_bootstrap(table, pools, times[name], times["trees"])
            gain, lost = comparison.spearman, comparison.regret
            print(f"{name} against trees, {kind} pools: Spearman {gain.value:+.3f} "
                  f"({gain.low:+.3f} to {gain.high:+.3f}), regret of the top 3 times "
                  f"{lost.value:.2f} ({lost.low:.2f} to {lost.high:.2f})")  # fmt: skip


def trees(options: argparse.Namespace, table: Table, language: np.ndarray) -> np.ndarray:
    """What the trees say of the same folds, relative to the base; kept beside the forecasts."""
    path = options.out / f"trees-{options.split}-{options.depth}.npy"
    loaded = np.load(path) if path.exists() else np.full(len(table), np.nan)
    for fold in split_into_folds(table, options.split):
        if np.isnan(language[fold.test]).all() or not np.isnan(loaded[fold.test]).any():
            continue
        unseen = table[fold.test]
        names, members = grow_ensemble(table[fold.train], replace(DEFAULTS, threads=0))
        values = columns_of(unseen, names)
        parts = np.array([member.predict(values) for member in members])
        loaded[fold.test] = Belief.from_members(parts, is_modelled(unseen)).mean
        np.save(path, loaded)
    return np.where(np.isnan(language), np.nan, loaded)


def figures(table: Table, time_ms: np.ndarray, rows: np.ndarray) -> str:
    forecasts = evaluate_forecasts(
        table, Forecasts.from_times(np.where(np.isin(np.arange(len(table)), rows), time_ms, np.nan))
    )
    pools = "  ".join(
        f"{kind} {pool.spearman_median:.3f}/{pool.spearman_p10:.2f} "
        + "/".join(f"{100 * pool.regrets[n]:.1f}" for n in FIRST)
        for kind, pool in forecasts.pools.items()
    )
    pairs = "/".join(f"{pair.right:.3f}" for pair in forecasts.pairs.values())
    pooled = spearman(time_ms[rows], table.time_ms[rows])
    return f"{pools}  error {forecasts.time_error:.1%}  pairs {pairs}  pooled {pooled:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_subparsers(dest="what", required=True)
    new_add_parser = what.add_parser("tables")
    new_add_parser.add_argument("tables", type=Path)
    quick = what.add_parser("speed")
    quick.add_argument("tables", type=Path)
    for name in ("folds", "whole", "judge"):
        part = what.add_parser(name)
        part.add_argument("tables", type=Path)
        part.add_argument("out", type=Path)
        part.add_argument("--split", default="families")
        part.add_argument("--depth", default="captured", choices=[item.value for item in Depth])
        part.add_argument("--name", default="language", help="of this variant's forecasts")
        if name == "judge":
            continue
        part.add_argument("--folds", type=int, nargs="+", default=list(range(FOLDS)))
        part.add_argument("--numbers-only", action="store_true")
        part.add_argument("--text-only", action="store_true")
        part.add_argument("--graphs", action=argparse.BooleanOptionalAction, default=True,
                          help="a step is one CUDA graph")  # fmt: skip
        part.add_argument("--backbone")
        part.add_argument("--adapt", default="frozen")
        for option, value in {
            **{"passes": 10.0, "order": 0.5, "facts": 1.0, "rate": 1e-3, "decay": 0.05},
            **{"variants": 6, "unread": 0.1, "most": 1024, "pretraining": 0},
            **{"vocabulary": 4096, "width": 192, "layers": 6, "decoder": 192, "blocks": 2},
            **{"dropout": 0.1, "latents": 8, "narrow": 0, "unknown": 0.0, "beside": 3, "rows": 768},
            "seed": 0,
        }.items():
            part.add_argument(f"--{option}", type=type(value), default=value)
    options = parser.parse_args()
    if options.what == "tables":
        tables(options.tables)
    else:
        {"folds": train, "whole": train, "judge": judge, "speed": speed}[options.what](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
