"""``solkit compare``: which of two candidates is faster, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options
from solkit.cli._base import Exit
from solkit.cli._options import Precision, TimingProtocol

if TYPE_CHECKING:
    from solkit.core import ComparisonReport

__all__ = ["EPILOG", "compare"]

EPILOG = (
    "Exit codes: 0 compared, whatever came of it; 1 SolKit failed; 2 the input or a shape is at "
    "fault, or there is no such GPU here; 3 a candidate failed, so that it was compared with "
    "nothing; 130 interrupted."
)

_Base = Annotated[
    str, typer.Argument(metavar="BASE", help="The kernel file that others are held against.")
]
_Candidates = Annotated[
    list[str], typer.Argument(metavar="CANDIDATE...", help="Kernel files for the same problem.")
]
_Reference = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The file with the reference. Default: the base's."),
]
_BaseParams = Annotated[
    list[str] | None, typer.Option(metavar="BLOCK=512", help="Parameters of the base.")
]
_Params = Annotated[
    list[str] | None, typer.Option(metavar="BLOCK=1024", help="Parameters of the candidates.")
]
_Budget = Annotated[
    float,
    typer.Option(min=0.0, metavar="SECONDS", help="For a comparison's turns, beyond the fewest."),
]
_TimeLimit = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="SECONDS", help="For one candidate and shape. Default: 120."),
]


def compare(
    base: _Base,
    candidates: _Candidates,
    device: _options.Device = None,
    reference: _Reference = None,
    shape: _options.Shapes = None,
    base_params: _BaseParams = None,
    params: _Params = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    json: _options.Json = None,
    budget: _Budget = 2.0,
    time_limit: _TimeLimit = None,
    trace: _options.Trace = None,
    protocol: _options.TimingProtocolOption = TimingProtocol.COLD,
    sandbox: _options.Sandbox = False,
    custom_kernel: _options.CustomKernel = False,
    verbose: _options.Tracebacks = False,
) -> None:
    """Say which candidate is faster, timing them in turns on this machine's GPU."""
    with _base.failures_as_exit_codes(verbose):
        shapes = _options.parse_shapes(shape)
        own = _options.parse_params(base_params, "--base-params")
        chosen = _options.parse_params(params)
        _base.check_writable(json)
        with _base.stdout_kept_for_the_report():
            from solkit import worker

            if not sandbox:
                worker.start()  # it loads torch while the rest loads here
            from solkit import pipeline

            report = pipeline.compare(
                base,
                *candidates,
                device=device,
                reference=reference,
                shapes=shapes,
                base_params=own,
                params=chosen,
                precision=precision.value,
                time_limit_s=time_limit,
                budget_s=budget,
                trace=trace,
                protocol=protocol.value,
                sandbox=sandbox,
                custom_kernel=custom_kernel,
            )
        _show(report, json)
    raise typer.Exit(_exit_code(report))


def _exit_code(report: ComparisonReport) -> Exit:
    from solkit.core import Difference  # 40 ms that --help need not take

    if any(each.difference is Difference.NOT_COMPARED for each in report.comparisons):
        return Exit.CANDIDATE_FAILED
    return Exit.BAD_INPUT if report.failed else Exit.REPORTED


def _show(report: ComparisonReport, json: str | None) -> None:
    from solkit.report import versus

    if json != "-":
        versus.render(report, _base.console())
    _base.write(json, lambda: versus.dumps(report))
