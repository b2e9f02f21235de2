"""Figures of forecasters, ranking and times: as a table, and as JSON ``solkit.evaluate/1``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.core.values import finite_or_none
from solkit.report.public_timings import PublicTimings, public_timings_json
from solkit.surrogate.evaluation.evaluate import UPDATED, Evaluation
from solkit.surrogate.evaluation.regret_metrics import APART, FIRST, Figures

SCHEMA = "solkit.evaluate/1"

Evaluations = Mapping[str, Mapping[str, Evaluation]]
"""By forecaster, then by split. The model's own name is empty."""


@dataclass(frozen=True)
class About:
    """Circumstances of an evaluation.

    Attributes:
        depth: ``"captured"``, ``"lowered"`` or ``"compiled"``.
        members: models in the surrogate's ensemble; ``None`` if it was read from a file.
        points: rows of each left-out family that it learned on the job, for `UPDATED`.
    """

    depth: str = "compiled"
    members: int | None = None
    points: int = 0


def dumps(evaluations: Evaluations, about: About, public: PublicTimings | None = None) -> str:
    """Return the figures as JSON; shares and errors are fractions, unknown ones null."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "depth": about.depth,
        "members": about.members,
        "splits": _splits_json(evaluations.get("", {})),
        "baselines": {
            name: _splits_json(by_split)
            for name, by_split in evaluations.items()
            if name not in ("", UPDATED)
        },
    }
    if UPDATED in evaluations:
        document[UPDATED] = {"points": about.points, "splits": _splits_json(evaluations[UPDATED])}
    if public is not None:
        document["on"] = public_timings_json(public)
    return json.dumps(document, indent=2, allow_nan=False)


def _splits_json(by_split: Mapping[str, Evaluation]) -> dict[str, Any]:
    return {split: _figures_json(evaluation) for split, evaluation in by_split.items()}


def _figures_json(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "rows": evaluation.rows,
        "pools": {kind: _pools_json(figures) for kind, figures in evaluation.pools.items()},
        "time_error_median": finite_or_none(evaluation.time_error),
        "coverage_90": finite_or_none(evaluation.coverage.share),
        "coverage_90_families_p10": finite_or_none(evaluation.coverage.p10),
        "coverage_90_families_worst": finite_or_none(evaluation.coverage.worst),
        "abstains": finite_or_none(evaluation.abstaining.share),
        "abstains_error_ratio": finite_or_none(evaluation.abstaining.error_ratio),
        "pairs_right": {
            apart: finite_or_none(pairs.right) for apart, pairs in evaluation.pairs.items()
        },
    }


def _pools_json(figures: Figures) -> dict[str, Any]:
    regrets = {f"regret_top{n}_mean": finite_or_none(figures.regrets[n]) for n in FIRST}
    return {
        "spearman_median": finite_or_none(figures.spearman_median),
        "spearman_p10": finite_or_none(figures.spearman_p10),
        **regrets,
        "problems": figures.problems,
        "k_90": figures.k_90 or None,
        "k_90_of_48": figures.k_90_of_48 or None,
    }


_WHOLE = {
    "all": "all rows, as forecast by the model",
    "on": "public timings of kernels that were rebuilt, as forecast by the model",
}
"""Titles of what is no split: rows that the model is tried on as it is."""


def render(evaluations: Evaluations, about: About, console: Console) -> None:
    """Print two tables for each split: how it ranks, and how far it can be trusted."""
    for split in evaluations.get("", {}):
        of_split = {
            _name_of_series(name, about): by_split[split]
            for name, by_split in evaluations.items()
            if split in by_split
        }
        what = _WHOLE.get(split, f"left out: {split}")
        console.print(_ranking_table(of_split, f"{what}; {about.depth}"))
        console.print(_trust_table(of_split))
    if about.members == 1:
        console.print("One model in place of an ensemble of five, which errs a little less.")


def _name_of_series(name: str, about: About) -> str:
    if name == UPDATED:
        return f"after {about.points} rows"
    return name.replace("_", " ") or "the surrogate"


def _ranking_table(of_split: Mapping[str, Evaluation], title: str) -> Table:
    regret = "regret, % " + "/".join(map(str, FIRST))
    heads = ("problems: Spearman", regret, "kernels: Spearman", regret, "time error, %")
    table = _empty_table(("", "rows", *heads), title)
    for name, evaluation in of_split.items():
        pools = [
            text
            for kind in ("problem", "kernel")
            for text in _ranking_cells(evaluation.pools[kind])
        ]
        table.add_row(name, f"{evaluation.rows:,}", *pools, _format_percent(evaluation.time_error))
    return table


def _trust_table(of_split: Mapping[str, Evaluation]) -> Table:
    heads = (
        "kernels over 1.2 apart, % right",
        "1.2 to 1.5, % right",
        "k for 90 %, of 48",
        "in 90 % interval, %",
        "families p10/worst, %",
        "abstains, %",
        "error there, ratio",
    )
    table = _empty_table(("", *heads), None)
    for name, evaluation in of_split.items():
        kernel, coverage, abstaining = (
            evaluation.pools["kernel"],
            evaluation.coverage,
            evaluation.abstaining,
        )
        families = f"{_format_percent(coverage.p10)}/{_format_percent(coverage.worst)}"
        table.add_row(
            name,
            *(_format_percent(evaluation.pairs[apart].right) for apart in APART),
            ", ".join(str(number or "-") for number in (kernel.k_90, kernel.k_90_of_48)),
            _format_percent(coverage.share),
            families if coverage.families else "",
            _format_percent(abstaining.share) if abstaining.share else "",
            "" if math.isnan(abstaining.error_ratio) else f"{abstaining.error_ratio:.1f}",
        )
    return table


def _empty_table(heads: Sequence[str], title: str | None) -> Table:
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(
            head, justify="right" if head else "left", overflow="fold", no_wrap=not head
        )
    return table


def _ranking_cells(figures: Figures) -> tuple[str, str]:
    if not figures.problems:
        return "", ""
    regrets = "/".join(f"{100 * figures.regrets[n]:.2g}" for n in FIRST)
    return f"{figures.spearman_median:.3f}/{figures.spearman_p10:.2f}", regrets


def _format_percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f}"
