"""``solkit watch``: score a kernel again at each save, and show what changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options, _outputs, _project, _saves, exit_codes
from solkit.cli._options import Precision, TimingProtocol
from solkit.cli.exit_codes import Exit

if TYPE_CHECKING:
    from rich.console import Console

    from solkit.core import Report
    from solkit.report.schema import ReportJson

_Kernel = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="The kernel file, or a problem folder. Sources in the same folder are watched too.",
    ),
]


def watch(
    kernel: _Kernel,
    device: _options.Device = None,
    on: _options.On = None,
    reference: _options.Reference = None,
    shape: _options.Shapes = None,
    params: _options.Params = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    measure: _options.Measure = None,
    protocol: _options.TimingProtocolOption = TimingProtocol.COLD,
    time_limit: _options.TimeLimit = 120.0,
    study_limit: _options.StudyLimit = 180.0,
    log: _options.Log = None,
    custom_kernel: _options.CustomKernel = False,
    verbose: _options.Tracebacks = False,
) -> None:
    """Score a kernel again at each save and show what changed. Ctrl-C stops it with exit code 0.

    The first page is that of `solkit score`. Later pages show changes of the bound, of the launches
    and of the modelled time of each source line. If this machine has the target, a measured page
    follows each modelled one.
    """
    with exit_codes.failures_as_exit_codes(verbose):
        _base.check_readable(kernel, reference)
        device = _project.device_setting(device, kernel, on)
        with _base.stdout_kept_for_the_report():
            from solkit.processes import jobs as worker

            worker.start()  # it keeps torch and triton loaded
            from solkit import pipeline
            from solkit.core import MeasureSettings
            from solkit.pipeline.target import target_device

        settings = MeasureSettings(
            on=on,
            precision=precision.value,
            protocol=protocol.value,
            time_limit_s=time_limit,
            study_limit_s=study_limit,
            custom_kernel=custom_kernel,
            log=log,
        )
        run = partial(
            pipeline.score,
            kernel, reference=reference, device=device,
            shapes=_project.shape_settings(shape, kernel),
            params=_options.parse_params(params), settings=settings,
        )  # fmt: skip
        here = target_device(device, settings).source == "nvml"
        modes = (False, measure) if measure or (measure is None and here) else (False,)
        page = _Page([partial(run, measure=mode) for mode in modes], _base.rich_console(), verbose)
        try:
            for saved_s in _saves.watch_saves([kernel, *([reference] if reference else [])]):
                page.show(saved_s)
        except KeyboardInterrupt:
            pass
    raise typer.Exit(Exit.REPORTED)


@dataclass
class _Page:
    """Shows a page after each save.

    Attributes:
        runs: score without measuring, then with, if this machine has the target.
        console: where to print.
        verbose: show every shape in full, and tracebacks.
        shown: the last report of each run.
    """

    runs: list[Callable[[], Report]]
    console: Console
    verbose: bool
    shown: dict[int, ReportJson] = field(default_factory=dict)

    def show(self, saved_s: float) -> None:
        """Score what was saved at a `time.time`, and print; the next save may fix a failure."""
        from solkit.report import schema

        try:
            for i, run in enumerate(self.runs):
                with _base.showing_work("scoring"), _base.stdout_kept_for_the_report():
                    report = run()
                model = schema.to_model(report)
                if i == 0 or model != self.shown[0]:  # else nothing could be measured
                    self._print_report(i, report, model, time.time() - saved_s)
        except Exception as error:
            exit_codes.print_blame(error, self.verbose)
        self.console.file.flush()

    def _print_report(self, i: int, report: Report, now: ReportJson, seconds: float) -> None:
        from rich.rule import Rule
        from rich.text import Text

        from solkit.report import terminal
        from solkit.report import watch as page

        before = self.shown.get(i)
        if before is None:
            terminal.render(report, self.console, details=self.verbose)
            page.render_lines(now, self.console)
        else:
            title = Text(
                f"{_outputs.local_time_now():%H:%M:%S}  {report.kernel.path}  {seconds:.2f} s",
                "bold",
            )
            self.console.print(Rule(title, align="left", characters="─", style="dim"))
            page.render(before, now, self.console)
        self.console.print()
        self.shown[i] = now
