"""Reports as one HTML file that needs no network: what ``--html`` writes.

::

    page ─┬─ _views   what the templates show, put together from reports
          ├─ _plotly  figures as Plotly takes them
          └─ templates/*.html.jinja, style.css, page.js
"""

from __future__ import annotations

from solkit.report.html._page import Failure, page

__all__ = ["Failure", "page"]
