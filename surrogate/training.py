"""Training of a surrogate from measured rows: what `solkit train` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from solkit.analysis.pool import usable_cores
from solkit.core import FACTS_VERSION, LOWERED_VERSION, SOURCE_DEPTHS, Depth
from solkit.datasets.store import Store
from solkit.errors import InputError
from solkit.processes.parallel_calls import process_pool
from solkit.surrogate.costs import CostModel, Costs, cost_fields_at, costs_of_rows, evaluate_costs
from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
from solkit.surrogate.evaluation.regret_metrics import FIRST
from solkit.surrogate.features import Array
from solkit.surrogate.model import SCHEMA, Surrogate
from solkit.surrogate.table import Table, table_of_stores
from solkit.surrogate.trees import DEFAULTS, Forecasts, Settings, Trees, xgboost

LEAST_ROWS = 200
"""Fewer configurations teach nothing that could be checked on others."""

_LEAST_FAMILIES = 5


def train(
    stores: Sequence[Store],
    settings: Settings = DEFAULTS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Surrogate:
    """Learn from the rows of some stores that have facts.

    The same stores, settings, seed and version of XGBoost give the same surrogate: each model grows
    on one core, as sums in another order would differ in their last bits. Depths learn in parallel.

    Args:
        stores: of measured rows.
        settings: of the trees.
        seed: of the trees.
        tell: receives what is done.

    Raises:
        InputError: the stores hold too few rows with facts.
        UnsupportedError: xgboost is not installed.
    """
    xgboost()
    trees: dict[Depth, Trees] = {}
    costs: dict[Depth, CostModel] = {}
    learned: dict[str, Any] = {}
    with process_pool(min(len(SOURCE_DEPTHS), usable_cores())) as workers:
        jobs = {
            depth: workers.submit(_learn_depth, stores, depth, settings, seed)
            for depth in SOURCE_DEPTHS
        }
        for depth, job in jobs.items():
            result = job.result()
            if result is not None:
                trees[depth], costs[depth], learned[depth.value] = result
                tell(f"{depth.value}: learned from {learned[depth.value]['configurations']:,}")
    if not trees:
        raise InputError(
            f"too few rows with facts to learn from: expected {LEAST_ROWS} configurations of "
            f"{_LEAST_FAMILIES} families. `solkit data refill` finds facts"
        )
    return Surrogate(
        card_of_training(learned, settings, seed), {}, trees.__getitem__, costs.__getitem__
    )


def card_of_training(learned: Mapping[str, Any], settings: Settings, seed: int) -> dict[str, Any]:
    """Return a model's card.

    Args:
        learned: what `learn_table` says, by depth.
        settings: of the trees.
        seed: of the trees.
    """
    return {
        "schema": SCHEMA,
        "depths": list(learned),
        "learned_from": learned,
        "facts_version": FACTS_VERSION,
        "lowered_version": LOWERED_VERSION,
        "settings": asdict(settings) | {"seed": seed},
        "xgboost": str(xgboost().__version__),
    }


def _learn_depth(
    stores: Sequence[Store], depth: Depth, settings: Settings, seed: int
) -> tuple[Trees, CostModel, dict[str, Any]] | None:
    """Learn a depth from stores: see `learn_table`."""
    table = table_of_stores(stores, depth, to_learn=True)
    return learn_table(table, costs_of_rows(stores, table), depth, settings, seed)


def learn_table(
    table: Table, spent: Costs, depth: Depth, settings: Settings = DEFAULTS, seed: int = 0
) -> tuple[Trees, CostModel, dict[str, Any]] | None:
    """Learn from a table at a depth.

    Args:
        table: with times.
        spent: what its rows cost.
        depth: of the table.
        settings: of the trees.
        seed: of the trees.

    Returns:
        The trees, those of costs, and what the card says of them; ``None`` if there are too few
        rows.
    """
    if len(table) < LEAST_ROWS or len(np.unique(table.about["family"])) < _LEAST_FAMILIES:
        return None
    workers = -(-usable_cores() // len(Depth))
    trees = Trees.fit(table, settings, seed, workers=workers)
    fields = cost_fields_at(depth)
    about = _describe_rows(table) | {
        "families_left_out": figures_of_left_out(table, trees.left_out_ms),
        "costs_of_families_left_out": evaluate_costs(table, spent, fields, seed),
    }
    return trees, CostModel.fit(table, spent, fields, seed), about


def _describe_rows(table: Table) -> dict[str, Any]:
    about: dict[str, Any] = {
        "configurations": len(table),
        "kernels": len(np.unique(table.about["kernel_id"])),
        "problems": len(np.unique(table.about["problem_id"])),
        "families": len(np.unique(table.about["family"])),
    }
    for name in ("device", "triton_version"):
        values, counts = np.unique(table.about[name].astype(str), return_counts=True)
        about[name] = {str(v): int(n) for v, n in zip(values, counts, strict=True)}
    return about


def figures_of_left_out(table: Table, left_out_ms: Array) -> Mapping[str, Any]:
    """Judge forecasts of rows by models that did not know their family.

    Args:
        table: with times.
        left_out_ms: the forecasts, (rows,).
    """
    evaluation = evaluate_forecasts(table, Forecasts.from_times(left_out_ms))
    pools = {
        kind: {
            "spearman_median": round(ranking.spearman_median, 4),
            "spearman_p10": round(ranking.spearman_p10, 4),
            **{f"regret_top{n}_mean": round(ranking.regrets[n], 4) for n in FIRST},
            "problems": ranking.problems,
        }
        for kind, ranking in evaluation.pools.items()
        if ranking.problems
    }
    return {"pools": pools, "time_error_median": round(evaluation.time_error, 4)}
