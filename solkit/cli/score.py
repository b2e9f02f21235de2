"""``solkit score``: how fast a kernel could run, how fast it runs, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _declared, _options, _outputs, _project, exit_codes
from solkit.cli._options import Precision, TimingProtocol
from solkit.cli.exit_codes import Exit
from solkit.errors import InputError
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.core import Report, Value
    from solkit.pipeline.hinting import Hint
    from solkit.report.html import Failure
    from solkit.report.schema import ReportJson

EPILOG = (
    "Exit codes: 0 reported; 1 SolKit failed; 2 invalid input or shape, or --fail-under without a "
    "score; 3 a candidate is wrong, does not compile, crashes, cheats or runs out of time or "
    "memory; 4 a time is impossible; 5 a score is under --fail-under; 130 interrupted. If several "
    "apply, 4 takes precedence over 3, 3 over 2, and 2 over 5. With several kernels, all are "
    "scored, and 1 takes precedence over all."
)

_Kernels = Annotated[
    list[str], typer.Argument(metavar="KERNEL", help="Kernel files, or problem folders.")
]
_Json = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|-",
        help="Write JSON to FILE; `-` is stdout. With several kernels, FILE is a folder with one "
        "file each, and `-` prints one line each.",
    ),
]
_ParamsFile = Annotated[
    str | None,
    _options.advanced(
        metavar="FILE",
        help="A best_config.json of `solkit tune` or `solkit emit`; --params go before it.",
    ),
]
_Launch = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="How a .cubin or .ptx is launched, unless a .launch.toml beside it says so: "
        "'grid=1024; block=256; args=fp32[4096], 4096; outputs=0'.",
    ),
]
_FailUnder = Annotated[
    float | None,
    _options.advanced(min=0.0, max=1.0, help="Exit with 5 if the SOL score of a shape is lower."),
]
_Ncu = Annotated[
    bool,
    _options.advanced(
        "--ncu", help="Read hardware counters of each launch with Nsight Compute: docs/analysis.md."
    ),
]
_Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Run what is not measured in Triton's interpreter at small sizes: needs no GPU.",
    ),
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show every shape in full, and tracebacks.")
]


def score(
    kernels: _Kernels,
    device: _options.Device = None,
    on: _options.On = None,
    reference: _options.Reference = None,
    solution: _options.Solution = None,
    shape: _options.Shapes = None,
    params: _options.Params = None,
    params_file: _ParamsFile = None,
    launch: _Launch = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    measure: _options.Measure = None,
    protocol: _options.TimingProtocolOption = TimingProtocol.COLD,
    time_limit: _options.TimeLimit = 120.0,
    study_limit: _options.StudyLimit = 180.0,
    log: _options.Log = None,
    sandbox: _options.Sandbox = False,
    custom_kernel: _options.CustomKernel = False,
    ncu: _Ncu = False,
    explain: _options.Explain = False,
    json: _Json = None,
    html: _outputs.Html = None,
    figures: _outputs.Figures = None,
    fail_under: _FailUnder = None,
    check: _Check = False,
    verbose: _Verbose = False,
) -> None:
    """Show how fast a kernel could run, how fast it runs, and what explains the difference."""
    with exit_codes.failures_as_exit_codes(verbose):
        kernels = list(map(_base.kernel_file, kernels))
        device = _project.device_setting(device, kernels[0], on)
        shapes = _project.shape_settings(shape, kernels[0])
        outputs = _outputs.Outputs(json, html, figures, several=len(kernels) > 1)
        _base.check_readable(*kernels, reference, solution, params_file)
        outputs.check(*kernels, reference, solution, params_file)
        chosen = _chosen_params(params, params_file, shapes, device)
        if launch is not None:
            chosen = {**(chosen or {}), "launch": launch}
        pairs = _pair_with_problems(kernels, reference, solution)
        for candidate, problem in pairs:
            _declared.check_declared_names(candidate, problem, shapes, chosen)
        with _base.stdout_kept_for_the_report():
            from solkit.processes import jobs as worker

            if not sandbox:
                worker.start()  # it loads torch while the rest loads here
            with span("importing"):
                from solkit import pipeline
                from solkit.core import MeasureSettings

        settings = MeasureSettings(
            on=on,
            precision=precision.value,
            protocol=protocol.value,
            time_limit_s=time_limit,
            study_limit_s=study_limit,
            sandbox=sandbox,
            custom_kernel=custom_kernel,
            log=log,
            counters=ncu,
        )
        run = partial(
            pipeline.score, device=device, params=chosen, settings=settings, measure=measure
        )
        page = _Page(
            outputs,
            verbose,
            explain,
            fail_under,
            hinting=not sandbox,
            checking=check,
            shape=shape,
            precision=precision.value,
            sandbox=sandbox,
        )
        code = page.one(run, *pairs[0]) if len(pairs) == 1 else page.several(run, pairs)
    raise typer.Exit(code)


def _chosen_params(
    params: Sequence[str] | None,
    params_file: str | None,
    shapes: Sequence[Mapping[str, Value]] | None,
    device: str | None,
) -> dict[str, Value] | None:
    """Return the candidate's parameters: the options' go before those of a ``best_config.json``."""
    overrides = _options.parse_params(params)
    if params_file is None:
        return overrides
    from solkit.roofline.devices import find
    from solkit.tuner.emitters import best_config

    key = None if device is None else find(device).key
    return {**best_config.read_best_configs(params_file, shapes, key), **(overrides or {})}


@dataclass(frozen=True)
class _Page:
    """Shows and writes reports as they come."""

    outputs: _outputs.Outputs
    verbose: bool
    explain: bool
    fail_under: float | None
    hinting: bool = True
    checking: bool = False
    shape: Sequence[str] | None = None
    precision: str = "tolerance"
    sandbox: bool = False

    def one(self, run: _Run, candidate: str, problem: str | None) -> Exit:
        """Report one kernel."""
        from solkit.report.overview import named

        report, model = self._make_and_show_report(run, candidate, problem)
        self.outputs.write_json([model])
        self.outputs.write(named([model]))
        return exit_codes.exit_code_of_score(report, self.fail_under)

    def several(self, run: _Run, pairs: Iterable[tuple[str, str | None]]) -> Exit:
        """Report each, failures too, then an index with the worst first."""
        from solkit.report import summary
        from solkit.report.html import Failure
        from solkit.report.overview import named

        models: list[ReportJson] = []
        failures: list[Failure] = []
        codes: list[Exit] = []
        for candidate, problem in pairs:
            try:
                report, model = self._make_and_show_report(run, candidate, problem)
            except BrokenPipeError:
                raise
            except Exception as error:
                codes.append(exit_codes.print_blame(error, self.verbose))
                failures.append(Failure(candidate, str(error)))
            else:
                codes.append(exit_codes.exit_code_of_score(report, self.fail_under))
                models.append(model)
                self.outputs.write_json(models)
        if models and not self.outputs.silent:
            summary.index(named(models), _base.rich_console())
        self.outputs.write(named(models), failures)
        return exit_codes.gravest_exit_code(codes)

    def _make_and_show_report(
        self, run: _Run, candidate: str, problem: str | None
    ) -> tuple[Report, ReportJson]:
        """Make a report, and show it."""
        from solkit.report import schema, terminal

        start = time.perf_counter()
        shapes = _project.shape_settings(self.shape, candidate)
        with _base.stdout_kept_for_the_report(), _base.showing_work(f"scoring {candidate}"):
            report = run(candidate, reference=problem, shapes=shapes)
            with span("best algorithm"):
                report = self._with_best(report)
            notes: tuple[str, ...] = ()
            if self.checking:
                from solkit.pipeline.interpreting import check_unmeasured

                report, notes = check_unmeasured(report)
        for note in notes:
            _base.print_complaint(f"{candidate}: {note}")
        took_s = time.perf_counter() - start
        if not self.outputs.silent:
            console = _base.rich_console()
            with span("printing"):
                terminal.render(report, console, details=self.verbose, explained=self.explain)
        with span("hints"):
            hints = self._better_configurations(report, took_s)
        return report, schema.with_hints(schema.to_model(report, _outputs.local_time_now()), hints)

    def _with_best(self, report: Report) -> Report:
        """Return a report with the best algorithm of each shape."""
        from solkit.pipeline.best_algorithm import with_best

        return with_best(report, precision=self.precision, sandbox=self.sandbox)

    def _better_configurations(self, report: Report, took_s: float) -> dict[int, Hint]:
        """Better configurations that are expected, after showing them."""
        from solkit.pipeline.hinting import hints_for_report
        from solkit.report import terminal

        if not self.hinting:  # what nobody trusts runs once
            return {}
        with _base.stdout_kept_for_the_report(), _base.showing_work("looking for better ones"):
            hint = hints_for_report(report, took_s)
        if hint and not self.outputs.silent:
            terminal.render_hint(report, hint, _base.rich_console())
        return hint


_Run = Callable[..., "Report"]


def _pair_with_problems(
    kernels: Sequence[str], reference: str | None, solution: str | None
) -> list[tuple[str, str | None]]:
    """Pair each file with a candidate with its problem's file, if that is another one."""
    if solution is not None and len(kernels) > 1:
        raise InputError(f"--solution {solution} takes one problem, got {len(kernels)}")
    return [_base.candidate_and_problem(kernel, reference, solution) for kernel in kernels]
