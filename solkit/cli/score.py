"""``solkit score``: how fast a kernel could run, how fast it does, and what stands between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Union

import typer

from solkit.cli import _base, _options, _outputs
from solkit.cli._base import Exit
from solkit.cli._options import Precision, TimingProtocol
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.core import Report
    from solkit.report.html import Failure
    from solkit.report.schema import ReportJson

__all__ = ["EPILOG", "exit_code", "score"]

EPILOG = (
    "Exit codes: 0 reported; 1 SolKit failed; 2 the input or a shape is at fault, or --fail-under "
    "has no score to judge; 3 a candidate is wrong, does not compile, crashed, cheats or ran out "
    "of time or memory; 4 a time is impossible; 5 a score is under --fail-under; 130 interrupted. "
    "Where several hold, 4 goes before 3, 3 before 2, 2 before --fail-under's; of several kernels "
    "the others are reported where SolKit fails at one, and 1 goes before all."
)

_Kernels = Annotated[
    list[str],
    typer.Argument(metavar="KERNEL", help="Kernel files, or problem folders."),
]
_Json = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|-",
        help="Write JSON; `-`: to stdout, alone. Of several kernels a folder with a file each; "
        "`-`: a line each.",
    ),
]
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
_Ncu = Annotated[
    bool,
    typer.Option(
        "--ncu", help="Count what each launch does, with Nsight Compute: docs/analysis.md."
    ),
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show every shape in full, and tracebacks.")
]


def score(
    kernels: _Kernels,
    device: _options.Device = None,
    reference: _options.Reference = None,
    solution: _Solution = None,
    shape: _options.Shapes = None,
    params: _Params = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    measure: _Measure = None,
    explain: _options.Explain = False,
    json: _Json = None,
    html: _outputs.Html = None,
    figures: _outputs.Figures = None,
    fail_under: _FailUnder = None,
    time_limit: _TimeLimit = None,
    trace: _options.Trace = None,
    protocol: _options.TimingProtocolOption = TimingProtocol.COLD,
    sandbox: _options.Sandbox = False,
    custom_kernel: _options.CustomKernel = False,
    ncu: _Ncu = False,
    verbose: _Verbose = False,
) -> None:
    """Say how fast a kernel could run, how fast it does, and what stands between."""
    with _base.failures_as_exit_codes(verbose):
        shapes = _options.parse_shapes(shape)
        chosen = _options.parse_params(params)
        outputs = _outputs.Outputs(json, html, figures, several=len(kernels) > 1)
        outputs.check()
        pairs = _paired(kernels, reference, solution)
        with _base.stdout_kept_for_the_report():
            from solkit import worker

            if not sandbox:
                worker.start()  # it loads torch while the rest loads here
            from solkit import pipeline

        def run(candidate: str, problem: str | None) -> Report:
            return pipeline.score(
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
                sandbox=sandbox,
                custom_kernel=custom_kernel,
                ncu=ncu,
            )

        page = _Page(outputs, verbose, explain, fail_under)
        code = page.one(run, *pairs[0]) if len(pairs) == 1 else page.several(run, pairs)
    raise typer.Exit(code)


@dataclass(frozen=True)
class _Page:
    """What is done with reports as they come."""

    outputs: _outputs.Outputs
    verbose: bool
    explain: bool
    fail_under: float | None

    def one(self, run: _Run, candidate: str, problem: str | None) -> Exit:
        """Report one kernel."""
        from solkit.report.standing import named

        report, model = self._reported(run, candidate, problem)
        self.outputs.write_json([model])
        self.outputs.write(named([model]))
        return exit_code(report, self.fail_under)

    def several(self, run: _Run, pairs: Iterable[tuple[str, str | None]]) -> Exit:
        """Report each, one that cannot be reported too, and all of them worst first."""
        from solkit.report import summary
        from solkit.report.html import Failure
        from solkit.report.standing import named

        models: list[ReportJson] = []
        failures: list[Failure] = []
        codes: list[Exit] = []
        for candidate, problem in pairs:
            try:
                report, model = self._reported(run, candidate, problem)
            except BrokenPipeError:
                raise
            except Exception as error:
                codes.append(_base.blame(error, self.verbose))
                failures.append(Failure(candidate, str(error)))
            else:
                codes.append(exit_code(report, self.fail_under))
                models.append(model)
                self.outputs.write_json(models)
        if models and not self.outputs.silent:
            summary.index(named(models), _base.console())
        self.outputs.write(named(models), failures)
        return min(codes, key=_GRAVEST.index)

    def _reported(
        self, run: _Run, candidate: str, problem: str | None
    ) -> tuple[Report, ReportJson]:
        """A report, once it has been shown."""
        from solkit.report import schema, terminal

        with _base.stdout_kept_for_the_report():
            report = run(candidate, problem)
        if not self.outputs.silent:
            console = _base.console()
            terminal.render(report, console, details=self.verbose, explained=self.explain)
        return report, schema.to_model(report, _outputs.now())


_Run = Callable[[str, Union[str, None]], "Report"]
_GRAVEST = (
    Exit.SOLKIT_FAILED,
    Exit.IMPOSSIBLE,
    Exit.CANDIDATE_FAILED,
    Exit.BAD_INPUT,
    Exit.UNDER_THRESHOLD,
    Exit.REPORTED,
)


def _paired(
    kernels: Sequence[str], reference: str | None, solution: str | None
) -> list[tuple[str, str | None]]:
    """Each file with a candidate, and the one with its problem where that is another."""
    if solution is None:
        return [(kernel, reference) for kernel in kernels]
    if len(kernels) > 1:
        raise InputError(f"--solution {solution}: it is for one problem, got {len(kernels)}")
    if reference is not None:
        raise InputError(
            f"--solution {solution} and --reference {reference}: give one of them; KERNEL is the "
            "problem with --solution, and the candidate with --reference"
        )
    return [(solution, kernels[0])]


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
