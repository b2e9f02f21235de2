"""``solkit evolve``: faster variants of a kernel, under a budget of GPU seconds."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, exit_codes
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import Evolved, EvolveStatus, Value
    from solkit.measure.benches import RecordedBench

__all__ = ["EPILOG", "evolve"]

EPILOG = (
    "Exit codes: 0 searched, whatever the verdict; 1 SolKit failed; 2 invalid input, or no such "
    "GPU here; 3 nothing ran; 130 interrupted before anything was measured."
)

_Kernel = Annotated[str, typer.Argument(metavar="KERNEL", help="The kernel file to start from.")]
_Seconds = Annotated[
    float, typer.Option(min=0.0, metavar="N", help="Budget of the search; the gate comes after.")
]
_StopAt = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of the speed of light that is enough.")
]
_Seed = Annotated[int, typer.Option(min=0, help="Of all that is drawn.")]
_Shape = Annotated[
    str | None,
    typer.Option(metavar="M=4096,N=1000", help="Sizes. Default: the file's first shape."),
]
_HeldOut = Annotated[
    list[str] | None,
    typer.Option(
        metavar="M=100,N=333",
        help="A shape for the gate; repeatable. Default: the file's HELD_OUT_SHAPES, or SHAPES.",
    ),
]
_Params = Annotated[
    list[str] | None,
    typer.Option(metavar="BLOCK=512", help="Parameters in use; default: the file's own."),
]
_Resume = Annotated[
    str | None, typer.Option(metavar="FILE", help="Go on with the run that FILE holds.")
]
_Recorded = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|STORE",
        help="Look candidates up in a recording instead of timing them: needs no GPU.",
    ),
]
_Order = Annotated[
    str,
    typer.Option(metavar="surrogate|random", help="In which order candidates are measured."),
]
_Depth = Annotated[
    str,
    typer.Option(
        metavar="captured|lowered|compiled",
        help="The deepest that a candidate is analysed before it is measured.",
    ),
]
_CustomKernel = Annotated[
    bool, typer.Option(help="Refuse variants that only call PyTorch's own kernels.")
]
_Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Write the winner's file, its parameters as defaults; if there is one."
    ),
]
_Html = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the lineage with diffs as an HTML page."),
]


def evolve(
    kernel: _Kernel,
    gpu_seconds: _Seconds = 120.0,
    shape: _Shape = None,
    held_out: _HeldOut = None,
    reference: _options.Reference = None,
    params: _Params = None,
    stop_at: _StopAt = 0.95,
    seed: _Seed = 0,
    order: _Order = "surrogate",
    depth: _Depth = "compiled",
    custom_kernel: _CustomKernel = False,
    log: _options.Log = None,
    resume: _Resume = None,
    recorded: _Recorded = None,
    device: _options.Device = None,
    on: _options.On = None,
    out: _Out = None,
    html: _Html = None,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Rewrite a kernel, rank the variants, measure the promising, and prove what is faster.

    Each variant is checked before it costs GPU time, and runs in its own process beside a referee.
    The best one meets the original on fresh inputs in new processes, and at shapes that the search
    never saw. If it does not hold there, the answer is to keep what you have.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(kernel, reference, recorded, resume)
        _check_outputs((kernel, reference, recorded), json, html, out)
        if log and resume:
            raise InputError("give one of --log FILE, for a new run, and --resume FILE")
        from solkit.core import EvolveSettings
        from solkit.pipeline.evolving import EvolveParts
        from solkit.pipeline.evolving import evolve as evolving
        from solkit.report.advice import advise

        settings = EvolveSettings(stop_at, seed=seed, order=order, depth=depth, on=on)
        given = _options.parse_params(params) or {}
        settings = replace(settings, params=given, held_out=_shapes(held_out))
        settings = replace(settings, log=resume or log, resume=resume is not None)
        with _base.stdout_kept_for_the_report(), _progress() as show:
            evolved = evolving(
                kernel,
                gpu_seconds=gpu_seconds,
                device=None if recorded else device,
                reference=reference,
                shape=_options.parse_settings(shape, "--shape") if shape else None,
                bench=_replayed(recorded, device, reference or kernel) if recorded else None,
                settings=replace(settings, custom_kernel=custom_kernel),
                parts=EvolveParts(advise=advise, show=show),
            )
        evolved = _write_winner(evolved, kernel, reference, out)
        _write(evolved, json, html)
        if evolved.original.time_ms is None:
            raise typer.Exit(_nothing(evolved))


def _replayed(path: str, device: str | None, problem: str) -> RecordedBench:
    """The recording; of a store, only the rows of the problem."""
    import hashlib

    from solkit.measure.benches import RecordedBench

    if not Path(path).is_dir():
        return RecordedBench.read(path, device=device)
    digest = hashlib.sha256(Path(problem).read_bytes()).hexdigest()
    try:
        return RecordedBench.read(path, where=f"problem_sha256 = '{digest}'", device=device)
    except InputError as error:
        raise InputError(f"{path}: {error}; looked for rows of the problem in {problem}") from error


def _shapes(held_out: Sequence[str] | None) -> list[Mapping[str, Value]] | None:
    if held_out is None:
        return None
    return [_options.parse_settings(each, "--held-out") for each in held_out]


def _check_outputs(
    inputs: tuple[str | None, ...], json: str | None, html: str | None, out: str | None
) -> None:
    _base.check_distinct(json=json, html=html, out=out)
    _base.check_writable(json, inputs=inputs)
    for name, path in {"--html": html, "--out": out}.items():
        if path == "-":
            raise InputError(f"{name}: name a file; only --json takes `-`")
        _base.check_writable(path, name, inputs)
    if html is not None:
        from solkit.report.extras import needed

        needed("jinja2")


def _nothing(evolved: Evolved) -> exit_codes.Exit:
    """The exit code if nothing ran."""
    from solkit.core import Stopped

    if evolved.stopped is Stopped.INTERRUPTED:
        return exit_codes.Exit.INTERRUPTED
    return exit_codes.Exit.CANDIDATE_FAILED


def _write_winner(evolved: Evolved, kernel: str, reference: str | None, out: str | None) -> Evolved:
    """Write the winner's file, if there is one."""
    from solkit.core import TuneVerdict
    from solkit.datasets.kernels import kernel_at
    from solkit.tuner.evolution.writing import with_params

    if out is None or evolved.verdict is not TuneVerdict.FASTER:
        return evolved
    name = kernel_at(kernel, reference=reference).entry_point
    text = with_params(evolved.winner.variant.source, name, evolved.best_params.params)
    Path(out).write_text(text, encoding="utf-8")
    return replace(evolved, out=out)


def _write(evolved: Evolved, json: str | None, html: str | None) -> None:
    from functools import partial

    from solkit.cli._outputs import now
    from solkit.report import evolution as page

    _base.show(json, partial(page.render, evolved), lambda: page.dumps(evolved))
    if html is not None:
        from solkit.report.html import lineage_page

        _base.write(html, lambda: lineage_page(evolved, written=now()), "--html")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[EvolveStatus], None]]:
    """Show how far it is: a line that changes on a terminal, else one every ten seconds."""
    from solkit.report.evolution import line

    if not sys.stderr.isatty():
        yield _base.paced(lambda status: _base.complain(line(status)))
        return
    from rich.console import Console

    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with screen.status("searching") as shown:
        yield lambda status: shown.update(line(status))
