"""``solkit report``: pages and figures from reports of ``solkit score --json``."""

from __future__ import annotations

from typing import Annotated

import typer

from solkit.cli import _base, _outputs, exit_codes
from solkit.cli.exit_codes import Exit

_Reports = Annotated[
    list[str], typer.Argument(metavar="REPORT.json", help="What `solkit score --json` wrote.")
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show every shape in full, and tracebacks.")
]


def report(
    files: _Reports,
    html: _outputs.Html = None,
    figures: _outputs.Figures = None,
    verbose: _Verbose = False,
) -> None:
    """Show saved reports, and compare those that share shapes."""
    with exit_codes.failures_as_exit_codes(verbose):
        outputs = _outputs.Outputs(html=html, figures=figures)
        outputs.check(*files)
        from solkit.report import schema, summary
        from solkit.report.overview import named

        reports = named([schema.read(file) for file in files], files)
        if html is None and figures is None:
            summary.render(reports, _base.rich_console(), details=verbose)
        outputs.write(reports)
    raise typer.Exit(Exit.REPORTED)
