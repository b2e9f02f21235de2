"""Knowledge about a kernel file without a GPU: work and analysis for each shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from solkit.analysis.analyser import Analysed, Analyser
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Case,
    Configuration,
    FailedShape,
    KernelFile,
    Study,
    Value,
    Verdict,
    progress,
)
from solkit.core.quantities import settings_text
from solkit.errors import InputError, JobDiedError, KernelFileError

Shape = Mapping[str, Value]
T = TypeVar("T")


@dataclass(frozen=True)
class StudyPlan:
    """Plan of what to study of a kernel file.

    Attributes:
        path: the kernel file.
        reference: the file with the reference, if `path` lacks one.
        shapes: sizes to override, one case each; ``None`` for the file's own shapes.
        params: the candidate's parameters to override.
        analysing: whether to capture and compile the candidate's launches.
        groups: how the problem is cut into kernels, in the notation of `solkit.roofline.fusion`;
            empty for one kernel per op, ``None`` to leave fusion out.
    """

    path: str
    reference: str | None = None
    shapes: Sequence[Shape] | None = None
    params: Shape = field(default_factory=dict)
    analysing: bool = True
    groups: str | None = None


def describe(analyser: Analyser, path: str, reference: str | None = None) -> KernelFile:
    """Read a kernel file: its problem and its candidate.

    Raises:
        KernelFileError: the file cannot be used.
    """
    return _result_of_reading(analyser.describe(path, reference), path)


def study(analyser: Analyser, plan: StudyPlan, begun: set[Future[Any]] | None = None) -> Study:
    """Trace the reference and analyse the candidate at each shape, on all cores.

    `Study.failed` lists the shapes that fail, or that end or hang the process that traces them. A
    candidate that does so leaves its shape without an analysis. What is interrupted is given up.

    Args:
        analyser: to use.
        plan: what to study.
        begun: gets what is under way, so that another thread may cancel it.

    Raises:
        InputError: the file or a parameter is at fault, or every shape.
    """
    begun = set() if begun is None else begun
    try:
        return _studied_shape(analyser, plan, begun)
    except (KeyboardInterrupt, SystemExit):
        for future in tuple(begun):
            future.cancel()
        raise


def _studied_shape(analyser: Analyser, plan: StudyPlan, begun: set[Future[Any]]) -> Study:
    if plan.shapes is not None and not plan.shapes:
        raise InputError("shapes: expected at least one, or None for the file's own; got none")
    kernel = _result_of_reading(
        note_begun(analyser.describe(plan.path, plan.reference), begun), plan.path
    )
    shapes = kernel.problem.shapes if plan.shapes is None else tuple(plan.shapes)
    futures = [_ask_for_shape(analyser, plan, kernel, shape, begun) for shape in shapes]
    cases: list[Case] = []
    errors: list[tuple[Shape, InputError]] = []
    for done, (shape, (problem, candidate)) in enumerate(zip(shapes, futures, strict=True)):
        progress.tell("shapes analysed", done, len(shapes))
        try:
            cases.append(
                _case_of_shape(_result_of_reading(problem, plan.path), candidate, plan, kernel)
            )
        except InputError as error:
            errors.append((shape, error))
    if not cases:
        raise _common_error(errors)
    failed = tuple(FailedShape(shape, str(error)) for shape, error in errors)
    return Study(kernel, tuple(cases), failed)


_Asked = tuple[Future[Case], Future[Analysed] | None]


def note_begun(future: Future[T], begun: set[Future[Any]]) -> Future[T]:
    """Return the future, among those begun until it is done."""
    begun.add(future)
    future.add_done_callback(begun.discard)
    return future


def _ask_for_shape(
    analyser: Analyser, plan: StudyPlan, kernel: KernelFile, shape: Shape, begun: set[Future[Any]]
) -> _Asked:
    """Return the problem's side of a shape, and the candidate's if wanted."""
    matter = not plan.analysing or kernel.problem.reference is None  # else the candidate's checks
    params = plan.params if matter else {}
    path, reference = files_of_problem(analyser, plan, kernel)
    problem = note_begun(analyser.problem(path, reference, shape, params, plan.groups), begun)
    if not plan.analysing:
        return problem, None
    name = kernel.candidate.name if kernel.candidate else ""
    configuration = Configuration(plan.path, name, shape, plan.params, plan.reference)
    return problem, note_begun(analyser.submit(configuration), begun)


def files_of_problem(
    analyser: Analyser, plan: StudyPlan, kernel: KernelFile
) -> tuple[str, str | None]:
    """Return the files to trace: not the candidate's where the problem's can stand alone.

    `kernel` is what the plan's files describe.

    So nothing that the candidate does when it is imported changes its problem's bound, and all
    candidates of a file share what is traced. Parameters that are to be checked, and what only the
    candidate's file says of its launches, need that file.
    """
    if plan.params and not plan.analysing:
        return plan.path, plan.reference
    if kernel.problem.format == "kernelbench" and not plan.params:
        return kernel.problem.path, None
    if plan.reference is not None and _stands_alone(analyser, plan.reference, kernel):
        return plan.reference, None
    return plan.path, plan.reference


def _stands_alone(analyser: Analyser, path: str, kernel: KernelFile) -> bool:
    """Tell whether a file gives a kernel's problem by itself, and the same of it."""
    try:
        alone = describe(analyser, path)
    except InputError:
        return False
    files = (alone.candidate, kernel.candidate)
    is_deployed = any(candidate is not None and candidate.is_deployed for candidate in files)
    return alone.problem == kernel.problem and not is_deployed


def _result_of_reading(future: Future[T], path: str) -> T:
    try:
        return future.result()
    except JobDiedError as death:
        raise KernelFileError(f"reading and tracing it failed: {death}", path) from death


def _case_of_shape(
    problem: Case, candidate: Future[Analysed] | None, plan: StudyPlan, kernel: KernelFile
) -> Case:
    if candidate is None:
        return _with_params(problem, plan.params, kernel)
    return candidate_case(problem, candidate, plan.params, kernel)


def _with_params(problem: Case, params: Shape, kernel: KernelFile) -> Case:
    own = kernel.candidate.params if kernel.candidate else {}
    return replace(problem, params={**own, **params})


def candidate_case(
    problem: Case, candidate: Future[Analysed], params: Shape, kernel: KernelFile
) -> Case:
    """Return the case of a problem with a candidate's analysis.

    Args:
        problem: at the shape.
        candidate: the analysis to come.
        params: the parameters that override the candidate's own.
        kernel: the file.

    Raises:
        SolkitError: the analysis failed, other than by ending its worker.
    """
    case = _with_params(problem, params, kernel)
    analysed = candidate.result()
    if isinstance(analysed.error, JobDiedError):
        return replace(case, analysis=_ended_analysis(analysed.error))
    if analysed.analysis is None:
        assert analysed.error is not None
        raise analysed.error
    return replace(case, analysis=_compared(analysed.analysis, case.outputs))


def _ended_analysis(death: JobDiedError) -> Analysis:
    """Return what is known where the analysis ended its process.

    The candidate's own code has a limit of CPU time, which ends the process by a signal. Without
    that, compilers and SolKit took the time, which says nothing about the candidate.
    """
    if death.timed_out and not death.ran_out_of_cpu:
        note = f"not analysed: capturing and compiling its kernels took too long: {death}"
        return Analysis(AnalysisStatus.OUT_OF_TIME, notes=(note,))
    note = f"The candidate could not be run on fake tensors: {death}"
    failure = Verdict.TIMED_OUT.value if death.timed_out else ""
    return Analysis(AnalysisStatus.NOT_CAPTURED, notes=(note,), failure=failure)


def _compared(analysis: Analysis, outputs: str) -> Analysis:
    """Add a note if the candidate's outputs differ from the reference's in dtype or shape."""
    if analysis.outputs in ("", outputs):
        return analysis
    note = f"The kernel gives {analysis.outputs} where the reference gives {outputs}."
    return replace(analysis, notes=(*analysis.notes, note))


def _common_error(errors: Sequence[tuple[Shape, InputError]]) -> InputError:
    """Return one error for all shapes: theirs, if they agree."""
    if len({str(error) for _, error in errors}) == 1:
        return errors[0][1]
    named = [(settings_text(shape, separator=","), error) for shape, error in errors]
    return InputError("\n  ".join(["every shape failed:", *(f"{s}: {e}" for s, e in named)]))
