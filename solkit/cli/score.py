"""``solkit score``: how fast a kernel could run, how fast it does, and what stands between."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options
from solkit.cli._base import Exit
from solkit.cli._options import Precision
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import Report

__all__ = ["EPILOG", "exit_code", "score"]

EPILOG = (
    "Exit codes: 0 reported; 1 SolKit failed; 2 the input or a shape is at fault, or --fail-under "
    "has no score to judge; 3 a candidate is wrong, does not compile, crashed, cheats or ran out "
    "of time or memory; 4 a time is impossible; 5 a score is under --fail-under; 130 interrupted. "
    "Where several hold, 4 goes before 3, 3 before 2, 2 before --fail-under's."
)


class Protocol(str, enum.Enum):
    """The names in `solkit.measure.protocols`, which takes time to load."""

    COLD = "cold"
    WARM = "warm"
    COLD_GRAPH = "cold-graph"
    WARM_GRAPH = "warm-graph"
    REPLAY = "replay"


_Solution = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The candidate, where KERNEL is a problem without one."),
]
_Params = Annotated[
    list[str] | None,
    typer.Option(metavar="BLOCK=1024", help="Parameters of the candidate."),
]
_Measure = Annotated[
    bool | None,
    typer.Option("--measure/--no-measure", help="Default: measure where the GPU is present."),
]
_FailUnder = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Exit with 5 if a shape's SOL score is lower."),
]
_TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="For measuring one shape, and for all that precedes measuring. Default: 120, 180.",
    ),
]
_Trace = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Append measurements there instead of to this month's file in your data folder.",
    ),
]
_Protocol = Annotated[Protocol, typer.Option(help="How it is timed: see docs/measuring.md.")]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show every shape in full, and tracebacks.")
]


def score(
    kernel: _options.Kernel,
    device: _options.Device = None,
    reference: _options.Reference = None,
    solution: _Solution = None,
    shape: _options.Shapes = None,
    params: _Params = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    measure: _Measure = None,
    explain: _options.Explain = False,
    json: _options.Json = None,
    fail_under: _FailUnder = None,
    time_limit: _TimeLimit = None,
    trace: _Trace = None,
    protocol: _Protocol = Protocol.COLD,
    verbose: _Verbose = False,
) -> None:
    """Say how fast a kernel could run, how fast it does, and what stands between."""
    with _base.failures_as_exit_codes(verbose):
        shapes = _options.parse_shapes(shape)
        chosen = _options.parse_settings(",".join(params), "--params") if params else None
        _base.check_writable(json)
        candidate, problem = _paired(kernel, reference, solution)
        with _base.stdout_kept_for_the_report():
            from solkit import worker

            worker.start()  # it loads torch while the rest loads here
            from solkit import pipeline

            report = pipeline.score(
                candidate,
                device=device,
                reference=problem,
                shapes=shapes,
                params=chosen,
                precision=precision.value,
                measure=measure,
                time_limit_s=time_limit,
                trace=trace,
                protocol=protocol.value,
            )
        _show(report, json, verbose, explain)
    raise typer.Exit(exit_code(report, fail_under))


def _paired(kernel: str, reference: str | None, solution: str | None) -> tuple[str, str | None]:
    """The file with the candidate, and the one with its problem where that is another."""
    if solution is None:
        return kernel, reference
    if reference is not None:
        raise InputError(
            f"--solution {solution} and --reference {reference}: give one of them; KERNEL is the "
            "problem with --solution, and the candidate with --reference"
        )
    return solution, kernel


def exit_code(report: Report, fail_under: float | None = None) -> Exit:
    """What the command line says of a report."""
    from solkit.core import Verdict  # 40 ms that --help need not take

    verdicts = [result.verdict for result in report.results]
    if Verdict.IMPOSSIBLE in verdicts:
        return Exit.IMPOSSIBLE
    if any(verdict.is_failure for verdict in verdicts):
        return Exit.CANDIDATE_FAILED
    if report.failed:
        return Exit.BAD_INPUT
    if fail_under is None:
        return Exit.REPORTED
    scores = [result.score.sol_score for result in report.results if result.score]
    if len(scores) < len(verdicts) or not scores:
        _base.complain("--fail-under: not every shape was measured, so there is no score to judge")
        return Exit.BAD_INPUT
    return Exit.UNDER_THRESHOLD if min(scores) < fail_under else Exit.REPORTED


def _show(report: Report, json: str | None, verbose: bool, explain: bool) -> None:
    from solkit.report import schema, terminal

    if json != "-":
        terminal.render(report, _base.console(), details=verbose, explained=explain)
    _base.write(json, lambda: schema.dumps(report))
