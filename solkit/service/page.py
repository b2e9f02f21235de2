"""The web page: queues, jobs and results, as plain HTML that needs no script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any

from solkit.service.curves import best_time_curve, sparkline
from solkit.service.job_naming import job_headline, job_title
from solkit.service.reports import has_report
from solkit.service.store import Job, Point, Status
from solkit.service.summaries import summarize_result

_MOST_JSON = 200_000
_OVERVIEW_S, _JOB_S = 5, 3
"""Seconds after which a browser loads a page again."""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --muted: #59626d;
        --measured: #d55e00; --sol: #0072b2; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem;
       padding: 0 1rem; }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 1.6rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; vertical-align: top;
         border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { white-space: nowrap; } td.short { overflow-wrap: normal; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
table.facts { width: auto; } table.facts td:first-child { color: var(--muted); }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; white-space: pre-wrap;
      overflow-wrap: anywhere; font-size: 13px; }
.muted { color: var(--muted); } a { color: var(--sol); }
.failed { color: #c0392b; } .done { color: #1e8449; } .running { color: #b9770e; }
svg.curve { width: 100%; max-width: 34rem; height: auto; display: block; }
svg.spark { width: 7.5rem; height: 1.75rem; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--muted); }
svg path { fill: none; stroke-width: 1.5; }
svg .axis { stroke: var(--line); } svg .best { stroke: var(--measured); stroke-width: 2; }
svg .dot { fill: var(--measured); } svg .sol { stroke: var(--sol); stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
  :root { --muted: #9aa5b1; --sol: #56b4e9; }
  .failed { color: #ff8a7a; } .done { color: #6fdc9b; } .running { color: #ffc56b; } }
@media (max-width: 640px) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table.cards, table.cards tbody, table.cards tr, table.cards td { display: block; }
  table.cards tr { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .75rem;
                   margin-bottom: .6rem; }
  table.cards td { border: 0; padding: .1rem 0; text-align: left; }
  table.cards td:first-child { font-weight: 600; }
  table.cards td:empty { display: none; }
  table.cards td[data-head]::before { content: attr(data-head) " "; color: var(--muted);
                                      font-weight: 400; }
  table.cards td.number, table.cards td.short { display: inline-block; margin-right: .9rem; } }
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
"""Headers of every page: nothing is loaded, run or embedded."""


def overview_page(
    queues: Sequence[Mapping[str, Any]],
    jobs: Sequence[Job],
    version: str,
    points: Mapping[str, Sequence[Point]],
) -> str:
    """Return the first page.

    Args:
        queues: as in `solkit.service.answers.OneQueue`.
        jobs: the newest first.
        version: of SolKit.
        points: how far each search was, by job.
    """
    names = ("queued", "running", "done", "failed", "cancelled")
    rows = [
        [escape(queue["name"]), *(str(queue[name]) for name in names), _worker_state(queue)]
        for queue in queues
    ]
    heads = ["kernel", "kind", "status", "answer", "report", "created", "took", "queue"]
    listed = (
        _html_table(heads, (_job_row(job, points.get(job.id, ())) for job in jobs), wide=(0, 3))
        if jobs
        else "<p>There are none yet.</p>"
    )
    body = (
        f"<h1>SolKit {escape(version)}</h1>"
        f"<h2>Queues</h2>{_html_table(['queue', *names, 'worker'], rows, numbers=range(1, 6))}"
        f"<h2>Jobs</h2>{listed}{_refresh_note(_OVERVIEW_S)}"
    )
    return _html_page("SolKit", body, _OVERVIEW_S)


def job_page(job: Job, points: Sequence[Point]) -> str:
    """Return the page of one job.

    Args:
        job: to show.
        points: how far it was, if it is a search.
    """
    rows = [
        ["status", _status_badge(job)],
        ["created", _format_when(job.created_s)],
        ["queue", escape(job.queue)],
    ]
    rows += [["took", _format_duration(job)]] if _format_duration(job) else []
    rows += [["progress", escape(job.progress)]] if job.progress else []
    if has_report(job):
        rows.append(["report", _report_link(job)])
    name = job_title(job)
    parts = [
        f"<h1>{escape(job.kind)}: {escape(name)}</h1>",
        f'<p class="muted">Job {escape(job.id)}</p>',
        _facts_table(rows),
    ]
    if figure := best_time_curve(points):
        parts.append(f"<h2>Best time so far</h2>{figure}")
    if job.error is not None:
        fault = json.loads(job.error)
        parts.append(f"<h2>{escape(fault['type'])}</h2><pre>{escape(fault['message'])}</pre>")
    if job.result is not None:
        result = json.loads(job.result)
        whole = json.dumps(result, indent=2)[:_MOST_JSON]
        parts.append(
            f'<h2 id="result">Result</h2><pre>{escape(summarize_result(job.kind, result))}</pre>'
        )
        parts.append(f"<details><summary>JSON</summary><pre>{escape(whole)}</pre></details>")
    parts.append('<p><a href="/">All jobs</a></p>')
    again_s = None if job.status.is_over else _JOB_S
    parts.append("" if again_s is None else _refresh_note(again_s))
    return _html_page(f"{job.kind}: {name}", "".join(parts), again_s)


def missing_page(message: str) -> str:
    """Return a page that says what is missing."""
    return _html_page("SolKit", f'<h1>{escape(message)}</h1><p><a href="/">All jobs</a></p>', None)


def _html_page(name: str, body: str, refresh_s: int | None) -> str:
    again = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s}">'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'{again}<link rel="icon" href="data:,"><title>{escape(name)}</title>'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _refresh_note(refresh_s: int) -> str:
    return f'<p class="muted">This page refreshes itself every {refresh_s} s.</p>'


def _html_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Container[int] = (),
    wide: Container[int] = (0,),
) -> str:
    """Return a table of cells that are HTML already; a narrow screen shows a card a row.

    Args:
        heads: of the columns.
        rows: of cells.
        numbers: columns that are numbers.
        wide: columns whose text may wrap, and that need no head on a card.
    """
    kinds = [
        "number" if at in numbers else "" if at in wide else "short" for at in range(len(heads))
    ]
    head = "".join(_html_cell("th", kind, escape(name)) for kind, name in zip(kinds, heads))
    lines = "".join(
        "<tr>"
        + "".join(
            _html_cell("td", kind, cell, name if kind else "")
            for kind, name, cell in zip(kinds, heads, row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'


def _html_cell(tag: str, kind: str, cell: str, head: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (
        f' data-head="{escape(head)}"' if head else ""
    )
    return f"<{tag}{attributes}>{cell}</{tag}>"


def _facts_table(rows: Iterable[Sequence[str]]) -> str:
    lines = "".join(f"<tr><td>{name}</td><td>{cell}</td></tr>" for name, cell in rows)
    return f'<table class="facts"><tbody>{lines}</tbody></table>'


def _job_row(job: Job, points: Sequence[Point]) -> list[str]:
    link = f'<a href="/jobs/{escape(job.id)}">{escape(job_title(job))}</a>'
    report = "" if job.result is None else _report_link(job)
    line = [link, escape(job.kind), _status_badge(job), _job_answer(job, points), report]
    return [*line, _format_when(job.created_s), _format_duration(job), escape(job.queue)]


def _job_answer(job: Job, points: Sequence[Point]) -> str:
    """Return the answer in short, or how far a search is, or why there is none."""
    note = job_headline(job) or job.progress
    if job.error:
        note = json.loads(job.error)["message"][:80]
    return escape(note) + sparkline(points)


def _report_link(job: Job) -> str:
    """Return a link to the report of its own, or to the result on the job's page."""
    place = "/report" if has_report(job) else "#result"
    return f'<a href="/jobs/{escape(job.id)}{place}">report</a>'


def _status_badge(job: Job) -> str:
    return f'<span class="{job.status.value}">{job.status.value}</span>'


def _worker_state(queue: Mapping[str, Any]) -> str:
    deaths = queue["worker_deaths"]
    state = "starting" if queue["worker_pid"] is None else "running"
    return state if not deaths else f"{state}, replaced {deaths} times"


def _format_when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_duration(job: Job) -> str:
    if job.status is Status.QUEUED or job.started_s is None or job.finished_s is None:
        return ""
    return f"{job.finished_s - job.started_s:.2f} s"
