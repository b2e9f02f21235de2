"""Facts about one shape of a kernel file before timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solkit.core import Bound, Case, Device, Fusion, Needed, Part, PartBound, Result, Verdict, Work
from solkit.roofline import hard_bound
from solkit.roofline.bound import bound
from solkit.roofline.kernel.gap import decompose_gap


def unmeasured(case: Case, device: Device, precision: str, protocol: str) -> Result:
    """Return the result of a candidate that is not measured yet.

    Args:
        case: its shape, work and analysis.
        device: the target.
        precision: as for `solkit.roofline.bound.bound`.
        protocol: as there.
    """
    case_bound = bound_of_case(case, device, precision, protocol)
    failure, errors = (
        "",
        [kernel.error for kernel in case.analysis.kernels if kernel.error is not None],
    )
    if errors:
        failure = Verdict.DOES_NOT_COMPILE.value
    elif case.analysis.failure:
        failure, errors = case.analysis.failure, list(case.analysis.notes[:1])
    return Result(
        shape=case.shape,
        params=case.params,
        verdict=Verdict(failure or Verdict.NOT_MEASURED),
        work=case.work,
        bound=case_bound,
        analysis=case.analysis,
        errors=tuple(errors),
        fusion=fusion_of_case(case, case_bound, device, precision) if case.unfused else None,
        gap=decompose_gap(case_bound, case.analysis.kernels, device),
        tolerance=case.tolerance,
    )


def where_needed(result: Result, needed: Needed, device: Device) -> Result:
    """Return a result whose hard bound is no more than what was measured on the timed inputs.

    Args:
        result: from `unmeasured`.
        needed: what the inputs make compulsory.
        device: the target.
    """
    work = hard_bound.where_needed(result.work, needed)
    least_ms = hard_bound.hard_ms(work, device, result.tolerance, result.bound.protocol)
    at = replace(result.bound.at, hard_ms=min(result.bound.at.hard_ms, least_ms))
    return replace(result, work=work, bound=replace(result.bound, at=at, hard_evidence="measured"))


def bound_of_case(case: Case, device: Device, precision: str, protocol: str) -> Bound:
    """Return the bound of the whole problem; arguments as for `unmeasured`."""
    return _bound(case, case.work, device, precision, protocol)


def deployed_protocol(case: Case, device: Device) -> str:
    """Return the bound's protocol for a kernel as its program launches it.

    Where L2 holds some of its tensors, all may be: no time is held against too high a bound.
    """
    is_cold = case.deployed is None or case.deployed.l2(device.l2_bytes) == "cold"
    return "cold" if is_cold else "warm"


def fusion_of_case(case: Case, whole: Bound, device: Device, precision: str) -> Fusion:
    """Return the gain of fusion, for a case that was cut into kernels.

    Args:
        case: as for `unmeasured`.
        whole: the bound of the whole problem.
        device: as for `unmeasured`.
        precision: as for `unmeasured`.
    """

    def bounded(parts: Sequence[Part]) -> tuple[PartBound, ...]:
        return tuple(
            PartBound(part, _bound(case, part.work, device, precision, whole.protocol))
            for part in parts
        )

    return Fusion(whole.time_ms, bounded(case.unfused), bounded(case.grouped))


def _bound(case: Case, work: Work, device: Device, precision: str, protocol: str) -> Bound:
    return bound(work, device, precision=precision, tolerance=case.tolerance, protocol=protocol)
