"""``solkit evaluate``: how well the surrogate ranks and forecasts what it has not seen."""

from __future__ import annotations

import enum
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes

if TYPE_CHECKING:
    from solkit.surrogate.evaluation.evaluate import Evaluation
    from solkit.surrogate.table import Table

__all__ = ["evaluate"]


class _Split(str, enum.Enum):
    CONFIGURATIONS = "configurations"
    PROBLEMS = "problems"
    FAMILIES = "families"
    KINDS = "kinds"
    DEVICES = "devices"
    TRANSFER = "transfer"


class _Depth(str, enum.Enum):
    CAPTURED = "captured"
    LOWERED = "lowered"
    COMPILED = "compiled"


_Stores = Annotated[
    list[str] | None,
    typer.Argument(metavar="[STORE...]", help="Stores or shipped sets. Default: h100 h200."),
]
_Splits = Annotated[
    list[_Split] | None,
    typer.Option("--split", help="What is left out. Repeatable. Default: families."),
]
_DepthOption = Annotated[_Depth, typer.Option("--depth", help="How much is known of a candidate.")]
_Baselines = Annotated[bool, typer.Option(help="Evaluate what it must beat, too.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of the trees and the pools.")]


def evaluate(
    stores: _Stores = None,
    split: _Splits = None,
    depth: _DepthOption = _Depth.COMPILED,
    baselines: _Baselines = True,
    seed: _Seed = 0,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Train on some of the measured rows, forecast the others, and compare.

    Each split goes in five folds; figures are of rows that were left out. Rows without facts do not
    count. Needs xgboost: pip install 'solkit[surrogate]'.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        from solkit.cli.data import opened
        from solkit.core import Depth
        from solkit.report import evaluation
        from solkit.surrogate.table import table_of
        from solkit.surrogate.trees import xgboost

        xgboost()
        with _base.working("reading facts"):
            table = table_of(
                [opened(name) for name in stores or ("h100", "h200")], Depth(depth.value)
            )
        names = [each.value for each in split or [_Split.FAMILIES]]
        found = _found(table, names, baselines, seed)
        if json != "-":
            evaluation.render(found, _base.console())
        _base.write(json, lambda: evaluation.dumps(found))


def _found(
    table: Table, splits: list[str], baselines: bool, seed: int
) -> dict[str, dict[str, Evaluation]]:
    from solkit.surrogate.evaluation.evaluate import evaluate as evaluated
    from solkit.surrogate.evaluation.forecasters import forecasters_for

    found: dict[str, dict[str, Evaluation]] = defaultdict(dict)
    for name in splits:
        forecasters = forecasters_for(name, baselines, seed)
        for label, forecaster in forecasters.items():
            with _base.working(f"{name}: {label or 'the surrogate'}"):
                found[label][name] = evaluated(table, name, forecaster, seed)
    return found
