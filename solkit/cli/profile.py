"""``solkit profile``: where a model's time goes on the GPU, and what is to be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options
from solkit.cli._base import Exit
from solkit.cli._options import Precision

if TYPE_CHECKING:
    from solkit.core import Profile

__all__ = ["profile"]

_Source = Annotated[
    str,
    typer.Argument(metavar="TRACE|SCRIPT.py", help="A trace of torch.profiler, or a script."),
]
_Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="The script's own; after `--` where they have dashes."),
]
_Device = Annotated[
    str | None,
    typer.Option(help="The GPU that it ran on: see `solkit devices`. Default: as the trace says."),
]
_Skip = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Pass over the first N steps. Default: 3 of a script."),
]
_Calls = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="End the script after N more calls of its model."),
]
_TraceOut = Annotated[
    str | None, typer.Option(metavar="FILE", help="Keep the script's trace (.json, .json.gz).")
]
_All = Annotated[bool, typer.Option("--all", help="Show every op, and all its kernels.")]
_TimeLimit = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="Interrupt the script after that.")
]


def profile(
    source: _Source,
    arguments: _Arguments = None,
    device: _Device = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    skip: _Skip = None,
    calls: _Calls = 5,
    trace_out: _TraceOut = None,
    show_all: _All = False,
    json: _options.Json = None,
    time_limit: _TimeLimit = 600.0,
    verbose: _options.Tracebacks = False,
) -> None:
    """Rank the ops of a real run by what closing their gap would save end to end.

    A script needs a GPU; a saved trace does not.
    """
    with _base.failures_as_exit_codes(verbose):
        _base.check_writable(json)
        with _base.stdout_kept_for_the_report():
            from solkit import worker

            worker.start()  # it loads torch while the trace is read
            import solkit.profiling

            found = solkit.profiling.profile(
                source,
                arguments or (),
                device=device,
                precision=precision.value,
                skip=skip,
                calls=calls,
                trace_out=trace_out,
                time_limit_s=time_limit,
            )
        _show(found, json, show_all)
    raise typer.Exit(Exit.BAD_INPUT if found.failure else Exit.REPORTED)


def _show(found: Profile, json: str | None, show_all: bool) -> None:
    from solkit.report import profile as page

    if json != "-":
        page.render(found, _base.console(), complete=show_all)
    _base.write(json, lambda: page.dumps(found))
