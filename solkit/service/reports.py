"""The report of a job: the page that ``--html`` of the command writes."""

from __future__ import annotations

import json
from datetime import datetime, timezone

from solkit.errors import UnsupportedError
from solkit.report import html, schema
from solkit.report.overview import named
from solkit.service.store import Job

_KINDS = ("score", "analyse", "rank", "evolve")
_SHOWN = 20  # candidates of a ranking

HEADERS = {
    # the page names the digests of its own scripts; here it only gets an origin of its own
    "content-security-policy": "sandbox allow-scripts allow-downloads; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def has_report(job: Job) -> bool:
    """Say whether a job has a report of its own, besides its page."""
    return job.result is not None and job.kind in _KINDS


def report_page(job: Job) -> str:
    """Return the report as a page of HTML.

    Raises:
        UnsupportedError: Jinja or Plotly is missing, or the job has none.
    """
    if job.result is None or not has_report(job):
        why = "it is not over"
        if job.status.is_over:
            why = f"a {job.kind} is shown on its own page"
        raise UnsupportedError(f"job {job.id} has no report: {why}")
    document = json.loads(job.result)
    written = datetime.fromtimestamp(job.finished_s or job.created_s, timezone.utc)
    if job.kind == "rank":
        return html.ranking_page(document, _SHOWN, written=written)
    if job.kind == "evolve":
        return html.lineage_page(document, written=written)
    return html.page(named([schema.ReportJson.model_validate(document)]), written=written)
