"""Read a kernel file: its problem, its candidate, and the cost of both, without a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, describe
from solkit.analysis.study import study as study_of
from solkit.core import Analysis, Case, Device, KernelFile, MeasureSettings, Study, Value
from solkit.errors import InputError
from solkit.pipeline.target import DEFAULT_DEVICE, named_device

STUDY_LIMIT_S = 180.0
"""Limit for tracing a file's reference at one shape, or for its candidate's analysis there."""

Shape = Mapping[str, Value]
Source = str | os.PathLike[str] | KernelFile


def analyser_for(device: Device, settings: MeasureSettings) -> Analyser:
    """Return an analyser with the limits of some settings: half a candidate's time is for this."""
    return Analyser(
        device,
        limit_s=settings.study_limit_s,
        run_limit_s=settings.time_limit_s / 2,
        sandbox=settings.sandbox,
    )


def load(
    path: str | os.PathLike[str], *, reference: str | os.PathLike[str] | None = None
) -> KernelFile:
    """Read a kernel file: what must be computed, and the candidate.

    Args:
        path: the file; native, KernelBench, or a Triton module with a launch description; or a
            problem folder of SOL-ExecBench or FlashInfer-Bench, or a solution for one.
        reference: the file with the reference, if `path` has none; a solution's problem.

    Raises:
        KernelFileError: the file cannot be used; names the line and what was expected.
    """
    with Analyser(DEFAULT_DEVICE) as analyser:
        return describe(analyser, *problem_files(path, reference))


def analyse(
    source: Source,
    device: str | Device,
    *,
    shape: Shape | None = None,
    params: Mapping[str, Value] | None = None,
    reference: str | os.PathLike[str] | None = None,
) -> Analysis:
    """Return what the candidate launches and what that compiles to for a device, without a GPU.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        params: the candidate's parameters to override.
        reference: as for `load`.

    Raises:
        InputError: the file, the device, the shape or a parameter is invalid.
    """
    shapes = None if shape is None else [shape]
    plan = plan_study(source, reference, shapes, params=params)
    return first_case(study_plan(plan, named_device(device))).analysis


def plan_study(
    source: Source,
    reference: str | os.PathLike[str] | None,
    shapes: Sequence[Shape] | None,
    *,
    params: Mapping[str, Value] | None = None,
    analysing: bool = True,
    groups: str | None = None,
) -> StudyPlan:
    """Plan what to study of a kernel file or its path; see `StudyPlan`."""
    path, other = problem_files(source, reference)
    return StudyPlan(path, other, shapes, dict(params or {}), analysing, groups)


def study_plan(plan: StudyPlan, device: Device, limit_s: float = STUDY_LIMIT_S) -> Study:
    """Study a kernel file; see `solkit.analysis.study`. `limit_s` is for each shape."""
    with Analyser(device, limit_s=limit_s) as analyser:
        return study_of(analyser, plan)


def first_case(study: Study) -> Case:
    """Return the case of the first requested shape.

    Raises:
        InputError: that shape failed.
    """
    for failure in study.failed:
        if failure.shape == study.kernel.problem.shapes[0]:
            raise InputError(failure.error)
    return study.cases[0]


def problem_files(
    source: Source, reference: str | os.PathLike[str] | None
) -> tuple[str, str | None]:
    """Return the candidate's file, and the problem's if that is a different one."""
    reference = None if reference is None else os.fspath(reference)
    if not isinstance(source, KernelFile):
        return os.fspath(source), reference
    problem, candidate = source.problem, source.candidate
    if candidate is None or candidate.path == problem.path:
        return problem.path, reference
    return candidate.path, problem.path
