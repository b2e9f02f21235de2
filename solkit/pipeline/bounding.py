"""The speed of light of a problem, the worth of fusion, and the bound as a formula."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from solkit.core import Bound, Device, Fusion, Report
from solkit.errors import JobDiedError, KernelFileError
from solkit.pipeline.environment import environment
from solkit.pipeline.studying import (
    STUDY_LIMIT_S,
    Shape,
    Source,
    first_case,
    plan_study,
    problem_files,
    study_plan,
)
from solkit.pipeline.target import named_device, target_device
from solkit.processes import jobs as worker
from solkit.roofline.cases import bound_of_case, fusion_of_case, unmeasured

if TYPE_CHECKING:
    from solkit.roofline.symbolic import SymbolicBound


def bound(
    source: Source,
    device: str | Device,
    *,
    shape: Shape | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    reference: str | os.PathLike[str] | None = None,
) -> Bound:
    """Return the speed of light of a problem on a device.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        precision: see `solkit.roofline.precision_routes.Rule`.
        protocol: ``"cold"``, or ``"warm"``: inputs and results lie in L2 if they fit.
        reference: as for `load`.

    Raises:
        InputError: the file, the device, the shape, the precision or the protocol is invalid.
    """
    to = named_device(device)
    plan = plan_study(source, reference, _single_shape(shape), analysing=False)
    case = first_case(study_plan(plan, to))
    return bound_of_case(case, to, precision, protocol)


def fusion(
    source: Source,
    device: str | Device,
    *,
    groups: str | None = None,
    shape: Shape | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    reference: str | os.PathLike[str] | None = None,
) -> Fusion:
    """Return the worth of fusion: a problem as one kernel, as one kernel per op, and as `groups`.

    Args:
        source: a kernel file, or its path.
        device: a name from the catalogue, or a device.
        groups: kernels in between, as `solkit.roofline.fusion` reads them: ``"0-3,4-7"`` by the
            ops' positions, ``"mm+relu,softmax"`` by their names, ``"L12-18"`` by lines.
        shape: sizes to override; the file's first shape otherwise.
        precision: as for `bound`.
        protocol: as for `bound`.
        reference: as for `load`.

    Raises:
        InputError: as for `bound`, or `groups` is invalid.
    """
    to = named_device(device)
    plan = plan_study(source, reference, _single_shape(shape), analysing=False, groups=groups or "")
    case = first_case(study_plan(plan, to))
    return fusion_of_case(case, bound_of_case(case, to, precision, protocol), to, precision)


def bounds(
    path: Source,
    *,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shapes: Sequence[Shape] | None = None,
    precision: str = "tolerance",
    protocol: str = "cold",
    groups: str | None = None,
    time_limit_s: float | None = None,
) -> Report:
    """Bound a kernel file's problem at each shape; a candidate is ignored.

    Args:
        path: a kernel file, or its path.
        device: the target; by default the first GPU of this machine, else `DEFAULT_DEVICE`.
        reference: as for `load`.
        shapes: sizes to override, one result each; the file's own shapes otherwise.
        precision: as for `bound`.
        protocol: as for `bound`.
        groups: as for `fusion`.
        time_limit_s: seconds that tracing one shape may take; 180 by default.

    Raises:
        InputError: as for `fusion`.
    """
    to = target_device(device)
    plan = plan_study(path, reference, shapes, analysing=False, groups=groups or "")
    study = study_plan(plan, to, STUDY_LIMIT_S if time_limit_s is None else time_limit_s)
    results = tuple(unmeasured(case, to, precision, protocol) for case in study.cases)
    return Report(environment(), study.kernel, to, results, study.failed)


def symbolic_bound(
    source: Source,
    names: Sequence[str],
    device: str | Device | None = None,
    *,
    shape: Shape | None = None,
    precision: str = "tolerance",
    reference: str | os.PathLike[str] | None = None,
    time_limit_s: float | None = None,
) -> SymbolicBound:
    """Return the roofline of a problem as a formula of some of its sizes; inputs start in DRAM.

    Args:
        source: a kernel file, or its path.
        names: sizes that become symbols.
        device: a name from the catalogue, or a device.
        shape: sizes to override; the file's first shape otherwise.
        precision: as for `bound`.
        reference: as for `load`.
        time_limit_s: seconds for tracing at all necessary sizes; 180 by default.

    Raises:
        InputError: the file, the device, a name, the shape or the precision is invalid, or no
            formula could be checked.
    """
    from solkit.roofline import symbolic  # imports sympy

    to = target_device(device)
    path, other = problem_files(source, reference)
    job = "solkit.analysis.symbolic_study:symbolic_work", path, other, to, shape, tuple(names)
    limit_s = STUDY_LIMIT_S if time_limit_s is None else time_limit_s
    try:
        traced = worker.call(*job, timeout_s=limit_s)
    except JobDiedError as death:
        raise KernelFileError(f"deriving a formula failed: {death}", path) from death
    return symbolic.symbolic_bound(traced, to, precision)


def _single_shape(shape: Shape | None) -> tuple[Shape, ...] | None:
    return None if shape is None else (shape,)
