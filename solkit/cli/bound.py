"""``solkit bound``: how fast a problem could be solved, and what limits it. Needs no kernel."""

from __future__ import annotations

import enum
from functools import partial
from typing import Annotated

import typer

from solkit.cli import _base, _declared, _options, _project, exit_codes
from solkit.cli._options import Precision
from solkit.cli._symbolic import check_options, show_formula
from solkit.cli.exit_codes import Exit


class Protocol(str, enum.Enum):
    """Protocol of `solkit.pipeline.bounds`."""

    COLD = "cold"
    WARM = "warm"


_Fusion = Annotated[
    bool, typer.Option("--fusion", help="Also show eager execution: one kernel per op.")
]
_Groups = Annotated[
    str | None,
    typer.Option(
        metavar="0-3,mm+relu,L12-18",
        help="Also show these kernels, each given by op numbers (--fusion prints them), names of "
        "consecutive ops, or lines of the file. Implies --fusion.",
    ),
]
_Protocol = Annotated[
    Protocol, typer.Option(help="Where inputs start: cold in DRAM; warm in L2, if they fit.")
]
_Symbolic = Annotated[
    str | None,
    typer.Option(metavar="M,N", help="Show the bound as a formula of these sizes instead."),
]


def bound(
    kernel: _options.Kernel,
    device: _options.Device = None,
    reference: _options.Reference = None,
    shape: _options.Shapes = None,
    precision: _options.PrecisionOption = Precision.TOLERANCE,
    protocol: _Protocol = Protocol.COLD,
    explain: _options.Explain = False,
    fusion: _Fusion = False,
    groups: _Groups = None,
    symbolic: _Symbolic = None,
    json: _options.Json = None,
    study_limit: _options.StudyLimit = 180.0,
    verbose: _options.Tracebacks = False,
) -> None:
    """Show how fast a problem could be solved, and what limits it. Needs no kernel and no GPU."""
    with exit_codes.failures_as_exit_codes(verbose):
        kernel = _base.kernel_file(kernel)
        _base.check_readable(kernel, reference)
        device = _project.device_setting(device, kernel)
        _base.check_writable(json, inputs=(kernel, reference))
        shapes = _project.shape_settings(shape, kernel)
        _declared.check_declared_names(kernel, reference, shapes)
        if symbolic is not None:
            refused = {"--explain": explain, "--fusion": fusion, "--groups": groups is not None}
            only = _options.parse_shapes(shape)
            check_options(refused, protocol.value, only)
            with _base.stdout_kept_for_the_report():
                from solkit import pipeline

                formula = pipeline.symbolic_bound(
                    kernel,
                    [name.strip() for name in symbolic.split(",")],
                    device,
                    shape=only[0] if only else None,
                    precision=precision.value,
                    reference=reference,
                    time_limit_s=study_limit,
                )
            show_formula(formula, json)
            return
        with _base.stdout_kept_for_the_report(), _base.showing_work(f"tracing {kernel}"):
            from solkit.processes import jobs as worker

            worker.start()  # it loads torch while the rest loads here
            from solkit import pipeline

            report = pipeline.bounds(
                kernel,
                device=device,
                reference=reference,
                shapes=shapes,
                precision=precision.value,
                protocol=protocol.value,
                groups=groups,
                time_limit_s=study_limit,
            )
            if explain:
                from solkit.pipeline.best_algorithm import with_best

                report = with_best(report, precision=precision.value)
        from solkit.report import bounds

        render = partial(
            bounds.render, report, explained=explain, kernels=fusion or groups is not None
        )
        _base.show_page_or_json(json, render, lambda: bounds.dumps(report))
    raise typer.Exit(Exit.BAD_INPUT if report.failed else Exit.REPORTED)
