"""``solkit bound``: how fast a problem could be solved, and what decides it. No kernel needed."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base, _options
from solkit.cli._base import Exit
from solkit.cli._options import Precision
from solkit.cli._symbolic import show_formula

if TYPE_CHECKING:
    from solkit.core import Report

__all__ = ["bound"]


class Protocol(str, enum.Enum):
    """What `solkit.pipeline.bounds` takes as protocol."""

    COLD = "cold"
    WARM = "warm"


_Fusion = Annotated[
    bool, typer.Option("--fusion", help="Show the kernels of eager execution: one an op.")
]
_Groups = Annotated[
    str | None,
    typer.Option(
        metavar="0-3,mm+relu,L12-18",
        help="Show kernels of one's own: by op numbers (as --fusion prints them), by the names of "
        "ops that follow each other, or by lines of the file. Implies --fusion.",
    ),
]
_Protocol = Annotated[
    Protocol, typer.Option(help="Whether inputs start in DRAM, or in L2 where they fit.")
]
_Symbolic = Annotated[
    str | None,
    typer.Option(metavar="M,N", help="Show the bound as a formula of these sizes instead."),
]
_TimeLimit = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="SECONDS", help="For tracing all shapes. Default: 180."),
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
    time_limit: _TimeLimit = None,
    verbose: _options.Tracebacks = False,
) -> None:
    """Say how fast a problem could be solved, and what decides it. Needs no kernel and no GPU."""
    with _base.failures_as_exit_codes(verbose):
        shapes = _options.parse_shapes(shape)
        _base.check_writable(json)
        if symbolic is not None:
            refused = {"--explain": explain, "--fusion": fusion, "--groups": groups is not None}
            asked = (kernel, symbolic, device, reference, shapes, precision.value, protocol.value)
            show_formula(*asked, json, time_limit, refused)
            return
        with _base.stdout_kept_for_the_report():
            from solkit import worker

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
                time_limit_s=time_limit,
            )
        _show(report, json, explain, fusion or groups is not None)
    raise typer.Exit(Exit.BAD_INPUT if report.failed else Exit.REPORTED)


def _show(report: Report, json: str | None, explain: bool, kernels: bool) -> None:
    from solkit.report import bounds

    if json != "-":
        bounds.render(report, _base.console(), explained=explain, kernels=kernels)
    _base.write(json, lambda: bounds.dumps(report))
