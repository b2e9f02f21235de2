"""Evaluate forecasters on splits: figures on rows that they have not learned from.

Several go on all cores: a task is one fold of one forecaster, on one core, so that the figures do
not depend on how many cores there are. What models say of families that they did not know is found
out once: intervals of all folds rest on it (`solkit.surrogate.evaluation.forecasters.OnTrees`). So
a fold's intervals may rest on models that knew rows of the fold, though never the family in
question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from solkit.analysis.pool import usable_cores
from solkit.processes.parallel_calls import process_pool
from solkit.surrogate.evaluation.coverage_and_abstention import (
    Abstention,
    Coverage,
    measure_abstention,
    measure_coverage,
)
from solkit.surrogate.evaluation.forecasters import (
    Forecaster,
    OnKnobs,
    OnTrees,
    forecaster_of_fold,
    forecasters_for,
)
from solkit.surrogate.evaluation.pools import KINDS, draw_pools
from solkit.surrogate.evaluation.regret_metrics import (
    Figures,
    Pairs,
    judge_kernel_pairs,
    median_time_error,
    ranking_figures,
)
from solkit.surrogate.evaluation.splits import split_into_folds
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table
from solkit.surrogate.trees import DEFAULTS, Belief, Forecasts, Settings, expect_out_of_family


@dataclass(frozen=True)
class Evaluation:
    """Figures of one forecaster on one split.

    Attributes:
        pools: figures by the kind of pool.
        time_error: median relative error, a fraction.
        coverage: how many rows are in their 90 % interval.
        abstaining: where the forecaster does not trust itself.
        pairs: how often of two kernels for a problem the faster one is told, by how far they are
            apart.
        rows: how many rows it was tested on.
    """

    pools: Mapping[str, Figures]
    time_error: float
    coverage: Coverage
    abstaining: Abstention
    pairs: Mapping[str, Pairs]
    rows: int


def evaluate_forecasts(table: Table, forecasts: Forecasts, seed: int = 0) -> Evaluation:
    """Return figures of forecasts; rows whose forecast is NaN do not count."""
    rows = np.flatnonzero(~np.isnan(forecasts.time_ms))
    pools = {kind: list(draw_pools(table, kind, rows, seed)) for kind in KINDS}
    return Evaluation(
        {
            kind: ranking_figures(table, pools_of_kind, forecasts.time_ms)
            for kind, pools_of_kind in pools.items()
        },
        median_time_error(forecasts.time_ms[rows], table.time_ms[rows]),
        measure_coverage(table[rows], forecasts[rows]),
        measure_abstention(table[rows], forecasts[rows]),
        judge_kernel_pairs(table, pools["problem"], forecasts.time_ms),
        len(rows),
    )


UPDATED = "after_update"
"""The surrogate after some rows of each family that is left out were measured."""


@dataclass(frozen=True)
class EvaluationRequest:
    """Extent of an evaluation.

    Attributes:
        splits: of `SPLITS`.
        baselines: whether what the surrogate must beat is evaluated, too.
        points: measured rows of each left-out family that the surrogate learns on the job; 0 for
            none.
        settings: of the surrogate's trees.
        seed: of the trees.
        processes: tasks at a time; 0 for one a core.
    """

    splits: Sequence[str]
    baselines: bool = True
    points: int = 0
    settings: Settings = DEFAULTS
    seed: int = 0
    processes: int = 0


def forecast_splits(
    table: Table, request: EvaluationRequest, tell: Callable[[str], None] = lambda _: None
) -> dict[str, dict[str, Forecasts]]:
    """Forecast rows that were left out, by forecaster and split: NaN for rows of no fold.

    Args:
        table: configurations with their times.
        request: what to evaluate.
        tell: receives what is done.

    Raises:
        InputError: there is no such split.
    """
    parts = {split: len(list(split_into_folds(table, split))) for split in request.splits}
    nothing = np.full(len(table), np.nan)
    by_label: dict[str, dict[str, Forecasts]] = defaultdict(dict)
    tasks: list[tuple[str, str, Future[tuple[Array, dict[str, Forecasts]] | None]]] = []
    with process_pool(request.processes or usable_cores(), _hold_table, (table,)) as workers:
        belief = workers.submit(_out_of_family, request.settings, request.seed)

        def submit_folds(split: str, forecasters: Mapping[str, Forecaster]) -> None:
            for label, forecaster in forecasters.items():
                learns_on = isinstance(forecaster, OnTrees) and forecaster.points > 0
                for series in (label, UPDATED) if learns_on else (label,):
                    by_label[series][split] = Forecasts.from_times(nothing)
                tasks.extend(
                    (label, split, workers.submit(_forecast_fold, forecaster, split, place))
                    for place in range(parts[split])
                )

        for split in request.splits:
            submit_folds(
                split,
                {
                    k: v
                    for k, v in _forecasters_of_split(split, request).items()
                    if not _rests_on_left_out(v)
                },
            )
        left_out = belief.result()
        for split in request.splits:
            submit_folds(
                split,
                {
                    k: v
                    for k, v in _forecasters_of_split(split, request, left_out).items()
                    if _rests_on_left_out(v)
                },
            )
        for number, (label, split, task) in enumerate(tasks, 1):
            if (done := task.result()) is not None:
                rows, of_fold = done
                for name, part in of_fold.items():
                    by_label[name or label][split] = by_label[name or label][split].with_(
                        rows, part
                    )
            tell(f"{number} of {len(tasks)} folds")
    return {
        label: {
            split: by_label[label][split] for split in request.splits if split in by_label[label]
        }
        for label in sorted(by_label, key=lambda label: (label != "", label != UPDATED))
    }


def _forecasters_of_split(
    split: str, request: EvaluationRequest, left_out: Belief | None = None
) -> dict[str, Forecaster]:
    forecasters = forecasters_for(
        split, request.baselines, request.seed, request.settings, left_out
    )
    if split in ("families", "styles", "kinds"):
        forecasters[""] = OnTrees(request.settings, request.seed, left_out, request.points)
        if request.baselines and request.points:
            forecasters["gp_knobs"] = OnKnobs(request.points, request.seed)
    return forecasters


def _rests_on_left_out(forecaster: Forecaster) -> bool:
    """Tell whether it rests on what models say of families that they did not know."""
    return isinstance(forecaster, OnTrees)


# ------------------------------------------------------------------------------------- workers

_table: Table | None = None
"""Table that this worker evaluates on."""


def _hold_table(table: Table) -> None:
    global _table
    _table = table


def _held_table() -> Table:
    assert _table is not None
    return _table


def _out_of_family(settings: Settings, seed: int) -> Belief:
    return expect_out_of_family(_held_table(), settings, seed)


def _forecast_fold(
    forecaster: Forecaster, split: str, place: int
) -> tuple[Array, dict[str, Forecasts]] | None:
    """Return the rows of a fold and their forecasts, also after an update; ``None`` if empty."""
    table = _held_table()
    fold = list(split_into_folds(table, split))[place]
    if not len(fold.train) or not len(fold.test):
        return None
    learns, train, test = forecaster_of_fold(forecaster, fold), table[fold.train], table[fold.test]
    if isinstance(learns, OnTrees) and learns.points:
        grown = learns.grown(train)  # once for both
        both = {"": grown.forecast(test), UPDATED: learns.forecast_after_update(grown, test)}
        return fold.test, both
    return fold.test, {"": learns(train, test)}
