"""The tables of all pages on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def table_without_lines(
    words: Sequence[str], numbers: Sequence[str], more: Sequence[str] = (), *, style: str = ""
) -> Table:
    """Return a table without lines: columns of words, of numbers aligned right, and of words again.

    Args:
        words: headings of the first columns.
        numbers: headings of columns that do not wrap.
        more: headings of the last columns.
        style: of the first columns.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in words:
        table.add_column(name, overflow="fold", style=style)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for name in more:
        table.add_column(name, overflow="fold")
    return table
