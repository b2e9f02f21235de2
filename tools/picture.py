"""Draw docs/report.svg: what `solkit score` prints of a matrix product, as a terminal shows it.

    python -m tools.picture

It needs no GPU and uses none: the report is that for an H100 of the catalogue.
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text

import solkit
from solkit.report.terminal import render

OUT = Path(__file__).parents[1] / "docs" / "report.svg"
KERNEL = "examples/matmul.py"
SIZES = {"M": 8192, "N": 8192, "K": 8192}
COMMAND = "solkit score examples/matmul.py --device h100 --shape M=8192,N=8192,K=8192"
_WIDTH = 98


def main() -> None:
    """Score the example and write the picture."""
    report = solkit.score(KERNEL, device="h100", shapes=[SIZES], measure=False)
    page = io.StringIO()
    console = Console(file=page, width=_WIDTH, force_terminal=True, color_system="truecolor")
    render(report, console)
    drawn = Console(file=io.StringIO(), record=True, width=_WIDTH)
    drawn.print(Text.from_ansi(page.getvalue()))  # the page is written past what a console records
    OUT.write_text(drawn.export_svg(title=COMMAND, unique_id="report"), encoding="utf-8")


if __name__ == "__main__":
    main()
