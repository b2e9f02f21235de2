"""Correctness without a GPU: candidates of a report under Triton's interpreter, at small sizes."""

from __future__ import annotations

from dataclasses import replace

from solkit.core import Checked, Report, Result, Verdict
from solkit.pipeline.studying import files_of
from solkit.tuner.proposers.checking import Checker

__all__ = ["checked"]


def checked(report: Report) -> tuple[Report, tuple[str, ...]]:
    """Check what was not measured; what the interpreter finds plainly wrong is `wrong`.

    Returns:
        The report, and a sentence for each shape that was checked.
    """
    if report.kernel.candidate is None:
        return report, ()
    kernel, problem = files_of(report.kernel, None)
    results: list[Result] = []
    told: list[str] = []
    with Checker() as checker:
        for each in report.results:
            if each.verdict is not Verdict.NOT_MEASURED:
                results.append(each)
                continue
            kind, why = checker.check_alone(kernel, problem, each.params, each.shape)
            told.append(_SAID[kind].format(why=why))
            if kind is Checked.WRONG:
                each = replace(each, verdict=Verdict.WRONG, errors=(*each.errors, why))
            results.append(each)
    return replace(report, results=tuple(results)), tuple(told)


_SAID = {
    Checked.RIGHT: "checked in Triton's interpreter: {why}",
    Checked.WRONG: "wrong in Triton's interpreter, {why}",
    Checked.UNCHECKED: "could not be checked in Triton's interpreter: {why}",
}
