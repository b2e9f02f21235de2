"""The best algorithm of a problem: the third figure, between the hard bound and the roofline."""

from __future__ import annotations

import ast
import math
import os
from dataclasses import replace
from pathlib import Path

from solkit.analysis.analyser import Analyser
from solkit.core import (
    BestAlgorithm,
    Bound,
    Device,
    PlanStudy,
    Report,
    Result,
    Tolerance,
    Verdict,
)
from solkit.core.quantities import duration
from solkit.errors import JobDiedError, SolkitError
from solkit.pipeline.studying import (
    Shape,
    Source,
    first_case,
    plan_study,
    problem_files,
    study_plan,
)
from solkit.pipeline.target import named_device
from solkit.roofline import bound as rooflines
from solkit.roofline.cases import bound_of_case
from solkit.roofline.score import time_verdict

BEST_LIMIT_S = 10.0
"""Limit for the search of one problem; after that it has no plan."""

_WORTH = 0.999  # of the roofline, at the most


def best(
    source: Source,
    device: str | Device,
    *,
    shape: Shape | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    reference: str | os.PathLike[str] | None = None,
    time_limit_s: float = BEST_LIMIT_S,
) -> BestAlgorithm:
    """Return the best algorithm of a problem that was proven equal to its reference.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        precision: as for `solkit.bound`.
        protocol: as for `solkit.bound`.
        reference: as for `solkit.load`.
        time_limit_s: seconds that the search may take.

    Raises:
        InputError: as for `solkit.bound`.
    """
    to = named_device(device)
    plan = plan_study(source, reference, None if shape is None else (shape,), analysing=False)
    case = first_case(study_plan(plan, to))
    traced = bound_of_case(case, to, precision, protocol)
    path, other = problem_files(source, reference)
    with Analyser(to) as analyser:
        study = search_plan(analyser, (path, other), case.shape, time_limit_s)
    return best_of(study, traced, _price(study, traced, to, precision, case.tolerance))


def with_best(
    report: Report,
    *,
    precision: str = "tolerance",
    sandbox: bool = False,
    time_limit_s: float = BEST_LIMIT_S,
) -> Report:
    """Return a report with the best algorithm of each shape that lacks it.

    A plan under a hard bound refutes it: both it and a verdict that rested on it are corrected.

    Args:
        report: of `solkit.score` or `solkit.bounds`.
        precision: of its bounds.
        sandbox: whether user code runs in a sandbox.
        time_limit_s: seconds that each search may take.
    """
    path, reference = problem_files(report.kernel, None)
    if report.kernel.problem.format == "kernelbench":
        path, reference = report.kernel.problem.path, None
    with Analyser(report.device, sandbox=sandbox) as analyser:
        results = tuple(
            _with_best(result, analyser, (path, reference), precision, time_limit_s)
            for result in report.results
        )
    return replace(report, results=results)


def _with_best(
    result: Result,
    analyser: Analyser,
    files: tuple[str, str | None],
    precision: str,
    limit_s: float,
) -> Result:
    if result.best is not None:
        return result
    device = analyser.device
    study = search_plan(analyser, files, result.shape, limit_s)
    planned = _price(study, result.bound, device, precision, result.tolerance)
    result = replace(result, best=best_of(study, result.bound, planned))
    return result if planned is None else _corrected(result, planned, device)


def _corrected(result: Result, planned: Bound, device: Device) -> Result:
    """Return a result whose hard bound and verdict agree with a plan that ran equal."""
    bound, measurement = result.bound, result.measurement
    if planned.time_ms >= bound.at.hard_ms:
        return result
    bound = replace(bound, at=replace(bound.at, hard_ms=planned.at.hard_ms))
    result = replace(result, bound=bound)
    if result.verdict is not Verdict.IMPOSSIBLE or measurement is None:
        return result
    time_ms, hard_ms = measurement.median_ms, bound.at.hard_ms
    verdict = time_verdict(time_ms, bound.time_ms, hard_ms, device)
    if verdict is Verdict.IMPOSSIBLE:
        return result
    why = (
        f"The traced program alone would need more than {duration(time_ms)}; a plan that was "
        f"proven equal takes {duration(planned.time_ms)}, so the time is possible."
    )
    return replace(result, verdict=verdict, errors=(*result.errors, why))


def search_plan(
    analyser: Analyser, files: tuple[str, str | None], shape: Shape, limit_s: float
) -> PlanStudy:
    """Return the plan of a file, with that of its reference, at a shape; else why there is none."""
    try:
        return analyser.plan(*files, shape, limit_s)
    except JobDiedError as death:
        why = f"took more than {limit_s:g} s" if death.timed_out else f"failed: {death}"
        return PlanStudy(reason=f"the search {why}")
    except SolkitError as error:
        return PlanStudy(reason=f"the search failed: {str(error).strip().splitlines()[-1].strip()}")


def _price(
    study: PlanStudy, traced: Bound, device: Device, precision: str, tolerance: Tolerance | None
) -> Bound | None:
    """Return the bound of a plan; ``None`` if there is none that is faster than the roofline."""
    if study.work is None:
        return None
    planned = rooflines.bound(
        study.work, device, precision=precision, tolerance=tolerance, protocol=traced.protocol
    )
    return planned if planned.time_ms < _WORTH * traced.time_ms else None


def best_of(study: PlanStudy, traced: Bound, planned: Bound | None) -> BestAlgorithm:
    """Return the time of a plan on a device; the roofline, with a reason, if it gains nothing."""
    roofline_ms = traced.time_ms
    if planned is None:
        reason = study.reason if study.work is None else "none is faster"
        return BestAlgorithm(roofline_ms, roofline_ms, note=f"no plan: {reason}")
    note = ""
    if planned.time_ms < traced.at.hard_ms:
        note = (
            "The plan takes less than the hard bound of the traced program, which did not see its "
            "algebra: that of the plan counts."
        )
    return BestAlgorithm(
        time_ms=planned.time_ms,
        roofline_ms=roofline_ms,
        limiter=planned.limiter,
        steps=study.steps,
        code=study.code,
        places=study.places,
        checked=study.checked,
        gain=roofline_ms / planned.time_ms if planned.time_ms else math.inf,
        plan="; ".join(study.steps),
        note=note,
    )


_MODEL = """

def _planned({names}):
    return plan({arguments})


Model.forward = _planned
"""
_FUNCTION = """

def reference({names}):
    return plan({arguments})
"""


def planned_reference(
    path: str | os.PathLike[str], kind: str, algorithm: BestAlgorithm
) -> str | None:
    """Return a problem's file with the plan in place of its reference.

    Args:
        path: the file with the reference.
        kind: the problem's format.
        algorithm: with a plan.

    Returns:
        ``None`` if the plan's inputs cannot be named in a call.
    """
    inputs = [place for place in algorithm.places if not place.startswith("self.")]
    if kind not in ("native", "kernelbench") or not all(map(str.isidentifier, inputs)):
        return None
    text = Path(path).read_text(encoding="utf-8")
    declared = _parameters(text, kind)
    if declared is None or not set(inputs) <= set(declared):
        return None
    names = ["self", *declared] if kind == "kernelbench" else declared
    template = _MODEL if kind == "kernelbench" else _FUNCTION
    call = template.format(names=", ".join(names), arguments=", ".join(algorithm.places))
    return f"{text}\n\n{algorithm.code}{call}"


def _parameters(text: str, kind: str) -> list[str] | None:
    """Return the parameters of a file's reference; ``None`` if they are not plain names."""
    body = ast.parse(text).body
    if kind == "kernelbench":
        models = [node for node in body if isinstance(node, ast.ClassDef) and node.name == "Model"]
        body = [node for model in models for node in model.body]
    method = "forward" if kind == "kernelbench" else "reference"
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == method]
    if not functions:
        return None
    arguments = functions[-1].args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        return None
    names = [argument.arg for argument in arguments.args]
    return names[1:] if kind == "kernelbench" else names
