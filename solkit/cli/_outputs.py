"""Outputs of reports besides the terminal: JSON, an HTML file, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solkit.cli import _base
from solkit.errors import InputError

if TYPE_CHECKING:
    from solkit.report.html import Failure
    from solkit.report.overview import NamedReport
    from solkit.report.schema import ReportJson

Html = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Write an HTML page with figures: one file that works offline."
    ),
]
Figures = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Write each figure to FOLDER, as PNG and SVG.")
]


def local_time_now() -> datetime:
    """Return the local time, with its zone."""
    return datetime.now(timezone.utc).astimezone()


@dataclass(frozen=True)
class Outputs:
    """Outputs of a command.

    Attributes:
        json: a file, or ``-`` for stdout; for several kernels a folder, or ``-`` for JSON Lines.
        html: a file.
        figures: a folder.
        several: whether several kernels were asked for.
    """

    json: str | None = None
    html: str | None = None
    figures: str | None = None
    several: bool = False

    @property
    def silent(self) -> bool:
        """True if stdout gets only JSON."""
        return self.json == "-"

    def check(self, *inputs: str | None) -> None:
        """Raise before the work, not after it, if something cannot be written.

        Args:
            inputs: files that the command reads; ``None`` counts as none.

        Raises:
            InputError: a file or folder cannot be written, or is named twice, or is an input.
            UnsupportedError: a required package is not installed.
        """
        from solkit.extras import library

        _base.check_distinct(json=self.json, html=self.html, figures=self.figures)
        if self.several and self.json is not None and self.json != "-":
            check_folder(self.json, "--json")
        else:
            _base.check_writable(self.json, inputs=inputs)
        if self.html == "-":
            raise InputError("--html: name a file; only --json takes `-`")
        if self.html is not None:
            _base.check_writable(self.html, "--html", inputs)
            library("jinja2")
            library("plotly")
        if self.figures is not None:
            check_folder(self.figures, "--figures")
            library("matplotlib")

    def write_json(self, reports: Sequence[ReportJson]) -> None:
        """Write the last report, before the next one starts.

        Raises:
            InputError: a file cannot be written.
        """
        from solkit.report import schema

        destination = self.json
        indent: int | None = 2
        if self.several and self.json == "-":
            indent = None  # a line
        elif self.several and self.json is not None:
            destination = str(Path(self.json) / f"{_file_stem_of_last(reports)}.json")
        _base.write_destination(destination, lambda: schema.dumps(reports[-1], indent))

    def write(self, reports: Sequence[NamedReport], failures: Sequence[Failure] = ()) -> None:
        """Write the page and the figures of all reports.

        Raises:
            InputError: a file or folder cannot be written.
        """
        if self.html is not None:
            from solkit.report.html import page

            text = page(reports, failures=failures, written=local_time_now())
            _base.write_destination(self.html, lambda: text, "--html")
        if self.figures is not None:
            from solkit.report import figures

            figures.write(reports, self.figures)


def check_folder(folder: str, option: str) -> None:
    """Make a folder before the work, so that nothing is lost after it.

    Raises:
        InputError: it cannot be made, or is a file.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise InputError(f"{option}: {folder} is a file, not a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}: cannot create {folder}: {error.strerror}") from error


def _file_stem_of_last(reports: Sequence[ReportJson]) -> str:
    """Return the last report's kernel; numbered if an earlier one has the same name."""
    from solkit.report.overview import file_name

    names = [file_name(report.kernel.name) for report in reports]
    again = names.count(names[-1])
    return names[-1] if again == 1 else f"{names[-1]}-{again}"
