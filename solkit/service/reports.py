"""The report of a job: the page that ``--html`` of the command writes."""

from __future__ import annotations

import json
from datetime import datetime, timezone

from solkit.errors import UnsupportedError
from solkit.report import html, schema
from solkit.report.overview import named
from solkit.service.store import Job, JobStore

__all__ = ["HEADERS", "has_report", "report_page"]

_FROM_RESULT = ("score", "analyse")
_KEPT = ("rank", "evolve")
"""Kinds whose pages need more than the result: the worker makes them."""

HEADERS = {
    # the page names the digests of its own scripts; here it only gets an origin of its own
    "content-security-policy": "sandbox allow-scripts allow-downloads; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def has_report(job: Job) -> bool:
    """Say whether a job has a report of its own, besides its page."""
    return job.result is not None and job.kind in (*_FROM_RESULT, *_KEPT)


def report_page(job: Job, store: JobStore) -> str:
    """Return the report as a page of HTML.

    Raises:
        UnsupportedError: Jinja or Plotly is missing, or the job has none.
    """
    if job.result is not None and job.kind in _FROM_RESULT:
        model = schema.ReportJson.model_validate(json.loads(job.result))
        written = datetime.fromtimestamp(job.finished_s or job.created_s, timezone.utc)
        return html.page(named([model]), written=written)
    kept = store.page(job.id)
    if kept is None:
        why = "it is not over" if not job.status.is_over else "its worker lacks Jinja"
        if job.status.is_over and job.kind not in _KEPT:
            why = f"a {job.kind} is shown on its own page"
        raise UnsupportedError(
            f"job {job.id} has no report: {why} (pip install 'solkit[report]' makes reports)"
        )
    return kept
