"""Diffs of ``solkit diff`` as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from solkit.report.html._page import fill_template
from solkit.report.side_diff import DiffView


def side_diff_page(document: Mapping[str, Any], top: int, *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        document: ``solkit.diff/1``.
        top: candidates to show of each diff.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    threshold = document["threshold"]
    views = [DiffView.from_json(diff, threshold) for diff in document["diffs"]]
    title = "; ".join(view.title for view in views)
    shown = [(view, view.shown(top)) for view in views]
    return fill_template("side_diff", title=title, written=written, diffs=shown)
