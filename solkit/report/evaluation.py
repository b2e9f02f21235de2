"""How well forecasters rank and forecast: as a table, and as JSON ``solkit.evaluate/1``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.surrogate.evaluation.evaluate import Evaluation
from solkit.surrogate.evaluation.figures import FIRST, Figures

__all__ = ["SCHEMA", "Evaluations", "dumps", "render"]

SCHEMA = "solkit.evaluate/1"

Evaluations = Mapping[str, Mapping[str, Evaluation]]
"""By forecaster, then by split. The model's own name is empty."""


def dumps(found: Evaluations) -> str:
    """The figures as JSON; shares and errors are fractions, unknown ones null."""
    told = {
        "schema": SCHEMA,
        "splits": _splits(found[""]),
        "baselines": {name: _splits(each) for name, each in found.items() if name},
    }
    return json.dumps(told, indent=2, allow_nan=False)


def _splits(found: Mapping[str, Evaluation]) -> dict[str, Any]:
    return {
        split: {
            "pools": {kind: _pools(each) for kind, each in evaluation.pools.items()},
            "time_error_median": _known(evaluation.time_error),
            "coverage_90": _known(evaluation.coverage_90),
        }
        for split, evaluation in found.items()
    }


def _pools(figures: Figures) -> dict[str, Any]:
    regrets = {f"regret_top{n}_mean": _known(figures.regrets[n]) for n in FIRST}
    return {
        "spearman_median": _known(figures.spearman_median),
        "spearman_p10": _known(figures.spearman_p10),
        **regrets,
        "problems": figures.problems,
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def render(found: Evaluations, console: Console) -> None:
    """Print a table for each split."""
    for split in found[""]:
        table = Table(title=f"left out: {split}", title_justify="left")
        regret = "regret, % " + "/".join(map(str, FIRST))
        for head in ("", "rows", "problems: Spearman", regret, "kernels: Spearman", regret):
            table.add_column(head, justify="left" if not head else "right", overflow="fold")
        table.add_column("time error", justify="right")
        table.add_column("in 90 % interval", justify="right")
        for name, by_split in found.items():
            if split in by_split:
                table.add_row(*_cells(name, by_split[split]))
        console.print(table)


def _cells(name: str, each: Evaluation) -> list[str]:
    pools = [text for kind in ("problem", "kernel") for text in _ranked(each.pools[kind])]
    error = _percent(each.time_error)
    return [name or "the surrogate", f"{each.rows:,}", *pools, error, _percent(each.coverage_90)]


def _ranked(figures: Figures) -> tuple[str, str]:
    if not figures.problems:
        return "", ""
    regrets = "/".join(f"{100 * figures.regrets[n]:.2g}" for n in FIRST)
    return f"{figures.spearman_median:.3f}/{figures.spearman_p10:.2f}", regrets


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f} %"
