"""Correctness without a GPU: candidates of a report under Triton's interpreter, at small sizes."""

from __future__ import annotations

from dataclasses import replace

from solkit.core import Checked, Report, Result, Verdict
from solkit.pipeline.studying import problem_files
from solkit.pipeline.tuning_context import describe_values
from solkit.tuner.interpreter_check import Checker


def check_unmeasured(report: Report) -> tuple[Report, tuple[str, ...]]:
    """Check what was not measured; what the interpreter finds plainly wrong is `wrong`.

    Returns:
        The report, and a sentence for each shape that was checked.
    """
    if report.kernel.candidate is None:
        return report, ()
    kernel, problem = problem_files(report.kernel, None)
    results: list[Result] = []
    sentences: list[str] = []
    with Checker() as checker:
        for result in report.results:
            if result.verdict is not Verdict.NOT_MEASURED:
                results.append(result)
                continue
            kind, why = checker.check_alone(kernel, problem, result.params, result.shape)
            at = f"{describe_values(result.shape)}: " if len(report.results) > 1 else ""
            sentences.append(at + _SAID[kind].format(why=why))
            if kind is Checked.WRONG:
                result = replace(result, verdict=Verdict.WRONG, errors=(*result.errors, why))
            results.append(result)
    return replace(report, results=tuple(results)), tuple(sentences)


_SAID = {
    Checked.RIGHT: "checked in Triton's interpreter: {why}",
    Checked.WRONG: "wrong in Triton's interpreter, {why}",
    Checked.UNCHECKED: "could not be checked in Triton's interpreter: {why}",
}
