"""Reports as one HTML file that works offline: what ``--html`` writes.

::

    page ─┬─ _views   what the templates show
          ├─ _plotly  figures for Plotly
          └─ templates/page.html.jinja, page.js
    ranking_page ── templates/rank.html.jinja
    lineage_page ── templates/lineage.html.jinja
    judging_page ── templates/judge.html.jinja
    side_diff_page ── templates/side_diff.html.jinja
    all extend templates/base.html.jinja, with style.css
"""

from __future__ import annotations

from solkit.report.html._judging import judging_page
from solkit.report.html._lineage import lineage_page
from solkit.report.html._page import Failure, page
from solkit.report.html._ranking import ranking_page
from solkit.report.html._side_diff import side_diff_page

__all__ = ["Failure", "judging_page", "lineage_page", "page", "ranking_page", "side_diff_page"]
