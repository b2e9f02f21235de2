"""Reports as one HTML file that works offline: what ``--html`` writes.

::

    page ─┬─ _views   what the templates show
          ├─ _plotly  figures for Plotly
          └─ templates/*.html.jinja, style.css, page.js
    ranking_page ── templates/rank.html.jinja, style.css
    lineage_page ── templates/lineage.html.jinja, style.css
    judging_page ── templates/judge.html.jinja, style.css
"""

from __future__ import annotations

from solkit.report.html._judging import judging_page
from solkit.report.html._lineage import lineage_page
from solkit.report.html._page import Failure, page
from solkit.report.html._ranking import ranking_page

__all__ = ["Failure", "judging_page", "lineage_page", "page", "ranking_page"]
