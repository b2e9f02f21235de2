"""``solkit replay``: how fast a search finds the best of a recorded space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes

if TYPE_CHECKING:
    from solkit.tuner.search_replay import Replay

_File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A recorded space: columns, T4 or any other file that `solkit data import` reads, "
        "maybe gzipped; a store or a shipped set.",
    ),
]
_Budget = Annotated[
    str, typer.Option(metavar="N,N…", help="Numbers of measurements at which to score.")
]
_Seeds = Annotated[int, typer.Option(min=1, help="Runs; the score is their median.")]
_Priors = Annotated[
    list[str] | None,
    typer.Option(
        "--prior", metavar="FILE", help="The same kernel recorded on another GPU. Repeatable."
    ),
]
_Method = Annotated[
    str, typer.Option(help="solkit, random, or a sampler of Optuna's: tpe, optuna-gp.")
]
_Where = Annotated[str | None, typer.Option(metavar="SQL", help="Which rows of a store to replay.")]
_Least = Annotated[
    int | None,
    typer.Option(
        min=1, help="Configurations that a space must have. Default: 60 in a store, else 1."
    ),
]


def replay(
    file: _File,
    budget: _Budget = "20,50,100,200",
    seeds: _Seeds = 15,
    prior: _Priors = None,
    method: _Method = "solkit",
    where: _Where = None,
    least: _Least = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Replay a search on recorded spaces, without a GPU.

    The search asks for configurations one by one and is told what was recorded; a failure costs a
    measurement. The score at a budget of N is the best time of the space over the best time found
    after N measurements. In a store, each kernel and shape on a GPU is a space.

    JSON has an object for each space: for several, a line each.
    """
    with exit_codes.failures_as_exit_codes(verbose, "tune"):
        _base.check_writable(json)
        import json as json_module

        _base.use_one_thread_of_blas()
        from solkit.tuner import search_replay as replaying

        budgets = _parse_budgets(budget)
        replaying.method_named(method)
        spaces = replaying.read_spaces(file, where, least)
        _base.print_complaint(f"{file}: {_check_count(len(spaces), 'recorded space')}")
        replays: list[Replay] = []
        with _base.showing_work("replaying"):
            for space in spaces:
                transfer_prior = replaying.prior_from_recordings(space, prior or ())
                replays.append(
                    replaying.replay_method(space, budgets, seeds, method, transfer_prior)
                )
        if json != "-":
            _render_replays(replays, [len(space.points) for space in spaces])
        indent = 2 if len(replays) == 1 else None
        _base.write_destination(
            json,
            lambda: "\n".join(
                json_module.dumps(replay.to_json(), indent=indent) for replay in replays
            ),
        )


def _parse_budgets(text: str) -> list[int]:
    from solkit.errors import InputError

    try:
        budgets = sorted({int(number) for number in text.split(",")})
    except ValueError:
        budgets = [0]
    if budgets[0] < 1:
        raise InputError(f"--budget {text}: expected numbers of measurements, as in 20,50,100")
    return budgets


def _check_count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _render_replays(replays: Sequence[Replay], sizes: Sequence[int]) -> None:
    from rich.table import Table

    first = replays[0]
    table = Table(
        title=f"{first.method}: best time over the best found, median of "
        f"{_check_count(first.seeds, 'run')}",
        title_justify="left",
    )
    table.add_column("space", overflow="fold")
    table.add_column("configurations", justify="right")
    for budget in first.fractions:
        table.add_column(f"@{budget}", justify="right")
    rows = [list(replay.medians().values()) for replay in replays]
    for replay, size, row in zip(replays, sizes, rows, strict=True):
        table.add_row(replay.space, f"{size:,}", *(f"{value:.3f}" for value in row))
    if len(replays) > 1:
        means = [sum(column) / len(replays) for column in zip(*rows, strict=True)]
        table.add_section()
        table.add_row("mean", "", *(f"{value:.3f}" for value in means))
    _base.rich_console().print(table)
