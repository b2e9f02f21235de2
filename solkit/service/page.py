"""The web page: queues, jobs and results, as plain HTML that needs no script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any

from solkit.service.store import Job, Status
from solkit.service.telling import told

__all__ = ["HEADERS", "job_page", "missing_page", "overview"]

_MOST_JSON = 200_000

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 70rem;
       padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 1.6rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; min-width: 30rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; white-space: pre-wrap;
      overflow-wrap: anywhere; }
.failed { color: #c0392b; } .done { color: #1e8449; } .running { color: #b9770e; }
@media (prefers-color-scheme: dark) {
  .failed { color: #ff8a7a; } .done { color: #6fdc9b; } .running { color: #ffc56b; } }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Of every page: nothing is loaded, run or embedded."""


def overview(queues: Sequence[Mapping[str, Any]], jobs: Sequence[Job], version: str) -> str:
    """The first page.

    Args:
        queues: as in `solkit.service.answers.OneQueue`.
        jobs: the newest first.
        version: of SolKit.
    """
    names = ("queued", "running", "done", "failed", "cancelled")
    rows = [
        [escape(each["name"]), *(str(each[name]) for name in names), _worker(each)]
        for each in queues
    ]
    heads = ["job", "kind", "status", "queue", "created", "took", ""]
    listed = _table(heads, map(_row, jobs)) if jobs else "<p>There are none yet.</p>"
    body = (
        f"<h1>SolKit {escape(version)}</h1>"
        f"<h2>Queues</h2>{_table(['queue', *names, 'worker'], rows, numbers=range(1, 6))}"
        f"<h2>Jobs</h2>{listed}"
    )
    return _page("SolKit", body, refresh_s=5)


def job_page(job: Job) -> str:
    """The page of one job."""
    rows = [
        ["kind", escape(job.kind)],
        ["status", _status(job)],
        ["queue", escape(job.queue)],
        ["created", _when(job.created_s)],
        ["took", _took(job)],
    ]
    if job.progress:
        rows.append(["progress", escape(job.progress)])
    parts = [f"<h1>Job {escape(job.id)}</h1>", _table([], rows)]
    if job.error is not None:
        fault = json.loads(job.error)
        parts.append(f"<h2>{escape(fault['type'])}</h2><pre>{escape(fault['message'])}</pre>")
    if job.result is not None:
        result = json.loads(job.result)
        whole = json.dumps(result, indent=2)[:_MOST_JSON]
        parts.append(f"<h2>Result</h2><pre>{escape(told(job.kind, result))}</pre>")
        parts.append(f"<details><summary>JSON</summary><pre>{escape(whole)}</pre></details>")
    parts.append('<p><a href="/">All jobs</a></p>')
    return _page(f"Job {job.id}", "".join(parts), None if job.status.is_over else 3)


def missing_page(message: str) -> str:
    """A page that says what is missing."""
    return _page("SolKit", f'<h1>{escape(message)}</h1><p><a href="/">All jobs</a></p>', None)


def _page(title: str, body: str, refresh_s: int | None) -> str:
    again = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s}">'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'{again}<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table of cells that are HTML already."""
    right = set(numbers)
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = "".join(
        "<tr>"
        + "".join(
            f'<td class="number">{cell}</td>' if place in right else f"<td>{cell}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return f'<div class="scroll"><table>{top}<tbody>{lines}</tbody></table></div>'


def _row(job: Job) -> list[str]:
    link = f'<a href="/jobs/{escape(job.id)}">{escape(job.id)}</a>'
    note = job.progress or (json.loads(job.error)["message"][:80] if job.error else "")
    told_job = [link, escape(job.kind), _status(job), escape(job.queue)]
    return [*told_job, _when(job.created_s), _took(job), escape(note)]


def _status(job: Job) -> str:
    return f'<span class="{job.status.value}">{job.status.value}</span>'


def _worker(queue: Mapping[str, Any]) -> str:
    deaths = queue["worker_deaths"]
    state = "starting" if queue["worker_pid"] is None else "running"
    return state if not deaths else f"{state}, replaced {deaths} times"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _took(job: Job) -> str:
    if job.status is Status.QUEUED or job.started_s is None or job.finished_s is None:
        return ""
    return f"{job.finished_s - job.started_s:.2f} s"
