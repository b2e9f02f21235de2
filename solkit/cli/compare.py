"""``solkit compare``: which candidate is faster, with a confidence interval."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from solkit.cli import _base, _declared, _options, _project, exit_codes
from solkit.cli._options import Precision, TimingProtocol

EPILOG = (
    "Exit codes: 0 compared, whichever is faster; 1 SolKit failed; 2 invalid input or shape, or no "
    "such GPU here; 3 a candidate failed and was not compared; 130 interrupted."
)

_Base = Annotated[
    str, typer.Argument(metavar="BASE", help="The kernel file to compare the others with.")
]
_Candidates = Annotated[
    list[str], typer.Argument(metavar="CANDIDATE...", help="Kernel files for the same problem.")
]
_Reference = Annotated[
    str | None, typer.Option(metavar="FILE", help="The file with the reference, if BASE has none.")
]
_BaseParams = Annotated[
    list[str] | None, typer.Option(metavar="BLOCK=512", help="Parameters of the base; repeatable.")
]
_Params = Annotated[
    list[str] | None,
    typer.Option(metavar="BLOCK=1024", help="Parameters of the candidates; repeatable."),
]
_Budget = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="Wall time for a comparison's turns, beyond the minimum."
    ),
]


def compare(
    base: _Base,
    candidates: _Candidates,
    device: _options.Device = None,
    on: _options.On = None,
    reference: _Reference = None,
    shape: _options.Shapes = None,
    base_params: _BaseParams = None,
    params: _Params = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    protocol: _options.TimingProtocolOption = TimingProtocol.COLD,
    budget: _Budget = 2.0,
    time_limit: _options.TimeLimit = 120.0,
    study_limit: _options.StudyLimit = 180.0,
    log: _options.Log = None,
    sandbox: _options.Sandbox = False,
    custom_kernel: _options.CustomKernel = False,
    json: _options.Json = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Show which candidate is faster, by timing them in turns on this machine's GPU."""
    with exit_codes.failures_as_exit_codes(verbose):
        device = _project.device_setting(device, base, on)
        shapes = _project.shape_settings(shape, base)
        own = _options.parse_params(base_params, "--base-params")
        chosen = _options.parse_params(params)
        _base.check_readable(base, *candidates, reference)
        problem = reference or base
        _declared.check_declared_names(base, reference, shapes, own)
        for candidate in candidates:
            _declared.check_declared_names(candidate, problem, shapes, chosen)
        _base.check_writable(json, inputs=(base, *candidates, reference))
        with _base.stdout_kept_for_the_report(), _base.showing_work("comparing"):
            from solkit.processes import jobs as worker

            if not sandbox:
                worker.start()  # it loads torch while the rest loads here
            from solkit import pipeline
            from solkit.core import MeasureSettings

            settings = MeasureSettings(
                on=on,
                precision=precision.value,
                protocol=protocol.value,
                time_limit_s=time_limit,
                study_limit_s=study_limit,
                turns_s=budget,
                sandbox=sandbox,
                custom_kernel=custom_kernel,
                log=log,
            )
            report = pipeline.compare(
                base,
                *candidates,
                device=device,
                reference=reference,
                shapes=shapes,
                base_params=own,
                params=chosen,
                settings=settings,
            )
        from solkit.report import comparison as page

        _base.show_page_or_json(json, partial(page.render, report), lambda: page.dumps(report))
    raise typer.Exit(exit_codes.of_comparison(report))
