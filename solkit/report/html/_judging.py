"""A report of `solkit judge` as one HTML file."""

from __future__ import annotations

from datetime import datetime

from solkit.core.judging import JudgeReport, Plausibility
from solkit.report import judging
from solkit.report.html._page import fill_template

__all__ = ["judging_page"]


def judging_page(report: JudgeReport, *, written: datetime) -> str:
    """Return the page as text; it needs no script and loads nothing.

    Args:
        report: of `solkit.pipeline.judging`.
        written: when.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    shown = judging.worst_first(report.judgements)
    return fill_template(
        "judge",
        title=judging.title_of(report),
        written=written,
        counts=judging.counts(report),
        judged=[j for j in shown if j.plausibility is not Plausibility.NOT_JUDGED],
        refused=[j for j in shown if j.plausibility is Plausibility.NOT_JUDGED],
        devices={j.problem.device.key: j.problem.device for j in shown if j.problem}.values(),
        faults=report.faults,
        problem_words=judging.problem_words,
        solution_words=judging.solution_words,
        verdict_words=judging.verdict_words,
    )
