"""A report of `solkit judge` as one HTML file."""

from __future__ import annotations

from datetime import datetime

from solkit.core.judging import JudgeReport, Plausibility
from solkit.report import judging
from solkit.report.html._page import fill_template

_SHOWN = 2000  # rows of a kind; a browser shows no more with ease


def judging_page(report: JudgeReport, *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        report: of `solkit.pipeline.judging`.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    ordered = judging.worst_first(report.judgements)
    judged = [j for j in ordered if j.plausibility is not Plausibility.NOT_JUDGED]
    refused = ordered[len(judged) :]
    return fill_template(
        "judge",
        title=judging.title_of(report),
        written=written,
        counts=judging.counts(report),
        judged=judged[:_SHOWN],
        refused=refused[:_SHOWN],
        left_out=len(judged[_SHOWN:]) + len(refused[_SHOWN:]),
        devices={j.problem.device.key: j.problem.device for j in judged if j.problem}.values(),
        faults=report.faults[:_SHOWN],
        problem_words=judging.problem_words,
        solution_words=judging.solution_words,
        verdict_words=judging.verdict_words,
    )
