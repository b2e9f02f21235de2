"""``solkit evaluate``: how well the surrogate ranks and forecasts what it has not seen."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from solkit.cli import _base, _options, _outputs, exit_codes
from solkit.errors import InputError
from solkit.extras import check_all

if TYPE_CHECKING:
    from solkit.core import Depth
    from solkit.surrogate.table import Table
    from solkit.surrogate.trees import Forecasts


class _Split(str, enum.Enum):
    CONFIGURATIONS = "configurations"
    PROBLEMS = "problems"
    FAMILIES = "families"
    STYLES = "styles"
    KINDS = "kinds"
    DEVICES = "devices"
    TRANSFER = "transfer"


_Stores = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STORE...]",
        help="Stores or shipped sets. Default: all that the shipped model knows.",
    ),
]
_Splits = Annotated[
    list[_Split] | None,
    typer.Option("--split", help="What is left out. Repeatable. Default: families."),
]
_DepthOption = Annotated[
    _options.FactsDepth, typer.Option("--depth", help="How much is known of a candidate.")
]
_Baselines = Annotated[bool, _options.advanced(help="Evaluate what it must beat, too.")]
_Seed = Annotated[int, _options.advanced(min=0, help="Of the trees and the pools.")]
_Members = Annotated[
    int,
    _options.advanced(
        min=1, max=20, help="Models in the ensemble. 1 takes a third of the time, and errs more."
    ),
]
_Update = Annotated[
    int,
    _options.advanced(
        "--update",
        min=0,
        metavar="N",
        help="Evaluate what it knows after N rows of each left-out family, too.",
    ),
]
_Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Train nothing: forecast all rows by a model of `solkit train`, or by `shipped`. Fair "
        "for rows that it has not learned from.",
    ),
]
_Language = Annotated[
    bool,
    _options.advanced(
        "--language",
        help="Train the language regressor on each fold as well: shown alone, and stacked on the "
        "trees. Wants a GPU: a fold takes most of an hour on a CPU.",
    ),
]
_Work = Annotated[
    str | None,
    _options.advanced(
        metavar="FOLDER",
        help="Where --language keeps finished folds: the same command goes on from there.",
    ),
]
_On = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="FILE",
        help="Train nothing: forecast times that others published, as far as their problems and "
        "kernels are known. Repeatable.",
    ),
]
_Problems = Annotated[
    str | None, _options.advanced(metavar="FOLDER", help="Of --on: where the problems' files are.")
]
_Device = Annotated[
    str | None,
    _options.advanced(metavar="NAME", help="Of --on: the GPU of the times. Default: each row's."),
]
_MostRows = Annotated[
    int,
    _options.advanced(
        metavar="N", min=0, help="Of --on: rows of a file; of more, N drawn at random. 0 for all."
    ),
]
_Plots = Annotated[str | None, typer.Option(metavar="FOLDER", help="Write figures, as PNG.")]


def evaluate(
    stores: _Stores = None,
    split: _Splits = None,
    depth: _DepthOption = _options.FactsDepth.COMPILED,
    baselines: _Baselines = True,
    members: _Members = 5,
    update: _Update = 0,
    model: _Model = None,
    on: _On = None,
    problems: _Problems = None,
    device: _Device = None,
    most_rows: _MostRows = 400,
    language: _Language = False,
    work: _Work = None,
    seed: _Seed = 0,
    plots: _Plots = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Train on some of the measured rows, forecast the others, and compare.

    Each split goes in five folds; figures are of rows that were left out. Rows without facts do not
    count. With --on, a model forecasts times that others published, and nothing is trained. Needs
    pip install 'solkit[train]'.
    """
    with exit_codes.failures_as_exit_codes(verbose, "train"):
        check_all("train")
        _check_options(split, model, update, plots, json)
        if work is not None and not language:
            raise InputError("--work is for --language")
        if language and model is not None:
            raise InputError("--language trains, and --model does not: give only one")
        if on:
            _check_on(stores, split, update, plots, on, problems)
            files = _PublicFiles(on, problems, device, most_rows)
            _evaluate_on(files, depth.value, model, baselines, seed, json)
            return
        if problems is not None or device is not None:
            raise InputError("--problems and --device are for --on")
        from solkit.cli.data import open_store
        from solkit.core import Depth
        from solkit.datasets.shipped import LEARNED_FROM
        from solkit.report import evaluation
        from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
        from solkit.surrogate.table import table_of_stores
        from solkit.surrogate.trees import xgboost

        xgboost()
        deep = Depth(depth.value)
        with _base.showing_work("reading facts"):
            table = table_of_stores([open_store(name) for name in stores or LEARNED_FROM], deep)
        if not len(table):
            raise InputError(f"no row has facts of depth {deep.value}: `solkit data refill`")
        names = [member.value for member in dict.fromkeys(split or [_Split.FAMILIES])]
        if model is not None:
            by_label = _forecast_by_model(table, deep, model, baselines)
        else:
            by_label = _forecast_left_out(table, names, baselines, members, update, seed)
            if language:
                stores = stores or list(LEARNED_FROM)
                by_label |= _evaluate_language(table, deep, stores, by_label[""], work, seed)
        judgements = {
            label: {
                name: evaluate_forecasts(table, forecast, seed)
                for name, forecast in by_split.items()
            }
            for label, by_split in by_label.items()
        }
        about = evaluation.About(deep.value, None if model else members, update)
        if json != "-":
            evaluation.render(judgements, about, _base.rich_console())
        _base.write_destination(json, lambda: evaluation.dumps(judgements, about))
        if plots is not None:
            from solkit.report import evaluation_figures

            evaluation_figures.write_figures(table, by_label, plots, seed)


def _check_options(
    split: list[_Split] | None, model: str | None, update: int, plots: str | None, json: str | None
) -> None:
    if model is not None and (split or update):
        other = "--split" if split else "--update"
        raise InputError(f"--model {model} and {other}: give only one. A model is tried as it is")
    _base.check_writable(json)
    if model not in (None, "shipped"):
        _base.check_readable(model)
    if plots is not None:
        from solkit.extras import library

        _outputs.check_folder(plots, "--plots")
        library("matplotlib")


def _check_on(
    stores: list[str] | None,
    split: list[_Split] | None,
    update: int,
    plots: str | None,
    on: list[str],
    problems: str | None,
) -> None:
    others = {"STORE": stores, "--split": split, "--update": update, "--plots": plots}
    excluded = [name for name, value in others.items() if value]
    if excluded:
        raise InputError(f"--on and {excluded[0]}: give only one. Nothing is trained or left out")
    _base.check_readable(*on, problems)


class _PublicFiles(NamedTuple):
    """Files of public timings, and options of reading them."""

    paths: list[str]
    problems: str | None
    device: str | None
    most_rows: int


def _evaluate_on(
    files: _PublicFiles,
    depth_name: str,
    model: str | None,
    baselines: bool,
    seed: int,
    json: str | None,
) -> None:
    """Forecast public timings by a model as it is."""
    from tempfile import TemporaryDirectory

    import numpy as np

    from solkit.core import Depth
    from solkit.pipeline.judging import judge
    from solkit.pipeline.public_figures import forecast_own, public_figures
    from solkit.pipeline.rebuilding import count_reasons, rebuild_rows
    from solkit.report import evaluation
    from solkit.report.public_timings import PublicTimings, render_public_timings
    from solkit.surrogate.evaluation.evaluate import evaluate_forecasts
    from solkit.surrogate.model import Surrogate

    depth = Depth(depth_name)
    surrogate = Surrogate.load(None if model in (None, "shipped") else model)
    with TemporaryDirectory() as folder, _base.showing_work(f"reading {files.paths[0]}"):
        report = judge(
            files.paths,
            problems=files.problems,
            device=files.device,
            most_rows=files.most_rows,
            folder=folder,
        )
        rows = rebuild_rows(report.judgements, folder, depth)
        table, forecasts, places = forecast_own(rows, depth, surrogate)
    figures = public_figures(rows, forecasts, places)
    timings = PublicTimings(files.paths, figures, count_reasons(rows), report.faults)
    judgements = {}
    if table is not None:
        by_label = {"": {"on": forecasts}, **_baselines_of_rows(table, "on", baselines)}
        judgements = {
            label: {"on": evaluate_forecasts(table, by_split["on"], seed)}
            for label, by_split in by_label.items()
            if np.isfinite(by_split["on"].time_ms).any()  # nothing was timed again
        }
    about = evaluation.About(depth.value)
    if json != "-":
        render_public_timings(timings, _base.rich_console())
        evaluation.render(judgements, about, _base.rich_console())
    _base.write_destination(json, lambda: evaluation.dumps(judgements, about, timings))


def _forecast_left_out(
    table: Table, splits: list[str], baselines: bool, members: int, update: int, seed: int
) -> dict[str, dict[str, Forecasts]]:
    from solkit.core import progress
    from solkit.surrogate.evaluation.evaluate import EvaluationRequest, forecast_splits
    from solkit.surrogate.trees import Settings

    request = EvaluationRequest(splits, baselines, update, Settings(members=members), seed)
    with _base.showing_work("evaluating"):
        return forecast_splits(table, request, progress.tell)


def _evaluate_language(
    table: Table,
    depth: Depth,
    stores: list[str],
    trees: dict[str, Forecasts],
    work: str | None,
    seed: int,
) -> dict[str, dict[str, Forecasts]]:
    """Evaluate the language regressor alone, and stacked on the trees."""
    import numpy as np

    from solkit.cli.data import open_store
    from solkit.core import Depth
    from solkit.surrogate.ensemble import RegressorSettings
    from solkit.surrogate.evaluation import language
    from solkit.surrogate.language.training import compiled_facts
    from solkit.surrogate.table import table_of_stores
    from solkit.surrogate.trees import Forecasts

    compiled = table_of_stores([open_store(name) for name in stores], Depth.COMPILED)
    facts = compiled_facts(table, compiled) if len(compiled) else None
    how = RegressorSettings(seed=seed)
    by_name: dict[str, dict[str, Forecasts]] = {"language": {}, "stacked": {}}
    for split, forecast in trees.items():
        folder = None if work is None else f"{work}/{depth.value}"
        alone = language.forecast_left_out(
            table, split, how, facts=facts, folder=folder, tell=_base.print_complaint
        )
        both = language.stack_forecasts(table, split, forecast, alone)
        for name, log2_ratios in (("language", alone), ("stacked", both)):
            by_name[name][split] = Forecasts.from_times(
                np.asarray(table.base_ms * 2.0**log2_ratios)
            )
    return by_name


def _forecast_by_model(
    table: Table, depth: Depth, model: str, baselines: bool
) -> dict[str, dict[str, Forecasts]]:
    """Forecast all rows by a model as it is; whether it knew them is unknown here."""
    from solkit.surrogate.model import Surrogate

    forecast = Surrogate.load(None if model == "shipped" else model).forecast(table, depth)
    return {"": {"all": forecast}, **_baselines_of_rows(table, "all", baselines)}


def _baselines_of_rows(
    table: Table, split: str, baselines: bool
) -> dict[str, dict[str, Forecasts]]:
    """Forecast all rows by what learns nothing."""
    from solkit.surrogate.evaluation.forecasters import (
        forecast_at_random,
        forecast_by_kernel_model,
        forecast_noise_ceiling,
    )

    forecasters = {
        "kernel_model": forecast_by_kernel_model,
        "random": forecast_at_random,
        "noise_ceiling": forecast_noise_ceiling,
    }
    return {n: {split: f(table, table)} for n, f in forecasters.items() if baselines}
