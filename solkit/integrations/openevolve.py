"""SolKit as an evaluator of OpenEvolve (https://pypi.org/project/openevolve).

An evaluator file needs four lines::

    from solkit.integrations.openevolve import evaluator

    _grades = evaluator("problem.py", recorded="h100")
    evaluate, evaluate_stage1, evaluate_stage2 = _grades

OpenEvolve runs that file anew for each candidate, in forked processes. The session outlives that,
and forks share it. Use it with ``cascade_evaluation: true`` and
``cascade_thresholds: [0.5]``: stage 1 gives 0.5 to what deserves a measurement, and less to what
does not. The result of stage 1 stands where stage 2 gives none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from solkit.core import Value
from solkit.integrations.grading import FEATURES, Graded
from solkit.integrations.grading_process import LIMIT_S
from solkit.integrations.sessions import METRICS, Session, describe_grade, numbers_of, session

DIMENSIONS = (*METRICS, *FEATURES)
"""Metrics of every result; any may be in ``feature_dimensions``."""

Evaluate = Callable[[str], Any]
"""Takes a program's path; gives OpenEvolve's ``EvaluationResult``."""


class Functions(NamedTuple):
    """Functions that OpenEvolve looks for in an evaluator file.

    Attributes:
        evaluate: both stages.
        evaluate_stage1: the forecast.
        evaluate_stage2: the measurement.
    """

    evaluate: Evaluate
    evaluate_stage1: Evaluate
    evaluate_stage2: Evaluate


def evaluator(
    problem: str | os.PathLike[str],
    *,
    shape: Mapping[str, Value] | None = None,
    device: str | None = None,
    recorded: str | os.PathLike[str] | None = None,
    url: str | None = None,
    search: str = "",
    budget_s: float | None = None,
    limit_s: float = LIMIT_S,
) -> Functions:
    """Return the functions of an evaluator file.

    They never raise: OpenEvolve would try the candidate again. The arguments are those of
    `solkit.integrations.sessions.session`.

    Args:
        problem: the file with the reference.
        shape: sizes to override.
        device: the target.
        recorded: a store whose rows answer instead of a GPU.
        url: a `solkit serve` that grades instead.
        search: a name for the service.
        budget_s: GPU seconds, at the most.
        limit_s: seconds after which a grade is given up; keep it below ``evaluator.timeout``.

    Raises:
        InputError: the problem cannot be read, or options exclude each other.
    """
    return functions_of(
        session(
            problem,
            shape=shape,
            device=device,
            recorded=recorded,
            url=url,
            search=search,
            budget_s=budget_s,
            limit_s=limit_s,
        )
    )


def functions_of(graded_by: Session) -> Functions:
    """Return the functions of an evaluator file, by a session."""

    def evaluate(program_path: str) -> Any:
        return result_of(graded_by.evaluate(program_path))

    def evaluate_stage1(program_path: str) -> Any:
        return result_of(graded_by.stage1(program_path))

    def evaluate_stage2(program_path: str) -> Any:
        return result_of(graded_by.stage2(program_path))

    return Functions(evaluate, evaluate_stage1, evaluate_stage2)


def result_of(graded: Graded) -> Any:
    """OpenEvolve's ``EvaluationResult`` for a grade; its metrics as a dict without OpenEvolve.

    Metrics are numbers: all of `DIMENSIONS`, and ``time_ms`` and ``gap`` of what was timed. The
    artifacts say why; OpenEvolve shows them to the model.
    """
    metrics = numbers_of(graded)
    if graded.time_ms is not None:
        metrics["time_ms"] = graded.time_ms
    if graded.gap is not None:
        metrics["gap"] = graded.gap
    try:
        from openevolve.evaluation_result import EvaluationResult  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return metrics
    return EvaluationResult(metrics=metrics, artifacts=describe_grade(graded))
