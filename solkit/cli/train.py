"""``solkit train``: a surrogate from measured rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.extras import check_all

if TYPE_CHECKING:
    from solkit.core import Depth
    from solkit.datasets.store import Store
    from solkit.surrogate.model import Surrogate

_Stores = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STORE...]",
        help="Stores or shipped sets. Default: all that the shipped model knows.",
    ),
]
_Out = Annotated[Path, typer.Option(metavar="FILE", help="The model's file, e.g. mine.solkit.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of the trees.")]
_Language = Annotated[
    bool,
    typer.Option(
        "--language",
        help="Train a language regressor as well, which reads the kernels' text. Wants a GPU: on a "
        "CPU it takes hours.",
    ),
]
_Depths = Annotated[
    list[str] | None,
    typer.Option(
        "--language-depth",
        metavar="captured|lowered|compiled",
        help="A depth at which it counts. May be given several times. Default: captured.",
    ),
]
_Work = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where --language keeps what is finished: the same command goes on from there.",
    ),
]


def train(
    out: _Out,
    stores: _Stores = None,
    seed: _Seed = 0,
    language: _Language = False,
    language_depth: _Depths = None,
    work: _Work = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Learn to rank kernels from measured rows, and show what the model learned from.

    Rows count if they have facts: `solkit data refill` finds them. The shipped model is what this
    command makes of the shipped sets. Needs pip install 'solkit[train]'.
    """
    with exit_codes.failures_as_exit_codes(verbose, "train"):
        check_all("train")
        _base.check_writable(json)
        depths = _language_depths(language, language_depth, work)
        import json as json_module

        from solkit.cli.data import open_store
        from solkit.datasets.shipped import LEARNED_FROM
        from solkit.surrogate.training import train as training

        opened_stores = [open_store(name) for name in stores or LEARNED_FROM]
        model = training(opened_stores, seed=seed, tell=_base.print_complaint)
        if depths:
            model = _with_language(model, opened_stores, depths, seed, work)
        model.save(out)
        if json != "-":
            _render_training(model.card, out)
        _base.write_destination(json, lambda: json_module.dumps(model.card, indent=2))


def _language_depths(language: bool, depths: list[str] | None, work: Path | None) -> list[Depth]:
    """Return the depths at which a language regressor counts."""
    from solkit.core import SOURCE_DEPTHS, Depth
    from solkit.errors import InputError

    if not language and (depths or work):
        raise InputError("--language-depth and --work are for --language")
    valid = [depth.value for depth in SOURCE_DEPTHS]
    for name in depths or ():
        if name not in valid:
            raise InputError(f"--language-depth {name!r}: choose from {', '.join(valid)}")
    return [Depth(name) for name in depths or ["captured"]] if language else []


def _with_language(
    model: Surrogate, stores: list[Store], depths: list[Depth], seed: int, work: Path | None
) -> Surrogate:
    from solkit.core import Depth
    from solkit.surrogate.ensemble import RegressorSettings, stack_regressor
    from solkit.surrogate.table import table_of_stores

    compiled = table_of_stores(stores, Depth.COMPILED)
    how = RegressorSettings(seed=seed)
    for depth in depths:
        table = compiled if depth is Depth.COMPILED else table_of_stores(stores, depth)
        model = stack_regressor(
            model, table, depth, how, compiled=compiled, folder=work, tell=_base.print_complaint
        )
    return model


def _render_training(card: Mapping[str, Any], out: Path) -> None:
    from rich.table import Table

    table = Table(title=f"{out}: {out.stat().st_size / 1e6:.1f} MB", title_justify="left")
    for head in ("depth", "configurations", "kernels", "families", "problems: Spearman"):
        table.add_column(head, overflow="fold", justify="left" if head == "depth" else "right")
    for head in ("kernels: Spearman", "time error"):
        table.add_column(head, overflow="fold", justify="right")
    for depth, learned in card["learned_from"].items():
        figures = learned["families_left_out"]
        table.add_row(
            depth,
            *(f"{learned[name]:,}" for name in ("configurations", "kernels", "families")),
            *(_format_ranks(figures["pools"].get(kind)) for kind in ("problem", "kernel")),
            f"{figures['time_error_median']:.1%}",
        )
    console = _base.rich_console()
    console.print(table)
    console.print("Figures are of families left out.")
    versions = {
        name for learned in card["learned_from"].values() for name in learned["triton_version"]
    }
    console.print(f"Kernels were compiled by Triton {', '.join(sorted(versions))}.")
    if here := _other_triton(versions):
        _base.print_complaint(f"this machine has Triton {here}, which the model has not seen")


def _format_ranks(pools: Mapping[str, float] | None) -> str:
    if pools is None:
        return ""
    return f"{pools['spearman_median']:.3f}/{pools['spearman_p10']:.2f}"


def _other_triton(versions: set[str]) -> str:
    """Return the version of Triton here, if none of these; empty else."""
    import importlib.metadata

    try:
        here = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return "" if here in versions else here
