"""A candidate without a parent, under Triton's interpreter: is it plainly wrong?

It runs in child processes, as `solkit.tuner.proposers._trial` does. A correct kernel may need sizes
that divide, and the interpreter computes in fp32 what tensor cores round. So a candidate is called
wrong only if it is far off at every size that was run, and no awkward size is tried.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from solkit.core import Value
from solkit.kernelfiles import LoadedKernel, load
from solkit.measure.checking.exact import is_inexact, reference_in
from solkit.tuner.proposers import _trial
from solkit.tuner.proposers._cases import Sized, even_sizes

__all__ = ["check", "warm_up"]

warm_up = _trial.warm_up

_SECONDS = 2.0
"""Limit for the launches of a size; what is cut short is a sample of its programs."""
_FAR = 0.05
"""Error, relative to an output and to their root mean square, that no rounding explains."""


class _UnjudgedError(Exception):
    """The problem says nothing about the candidate's outputs here."""


def check(
    problem: str, kernel: str, params: Mapping[str, Value], shape: Mapping[str, Value]
) -> tuple[str, str]:
    """Run a candidate at a few sizes.

    Returns:
        ``"right"``, ``"wrong"`` or ``"unchecked"``, and the reason.
    """
    _trial._arrange()
    loaded = load(kernel, problem if problem != kernel else None)
    held_out = loaded.description.problem.held_out_shapes
    wrong, lacking, agreed = "", "", 0
    for sized in even_sizes(loaded.full_shape(shape), held_out):
        try:
            difference = _difference(loaded, params, sized)
        except Exception as error:  # user code in an interpreter that lacks some operations
            lacking = lacking or f"{sized.describe()}: {_trial._said(error)}"
            continue
        if difference:
            wrong = wrong or f"{sized.describe()}: {difference}"
        else:
            agreed += 1
    if agreed:
        return "right", f"it agrees with the reference at {agreed} size{'s' if agreed > 1 else ''}"
    if wrong:
        return "wrong", wrong
    return "unchecked", lacking or "there is no size to try"


def _difference(loaded: LoadedKernel, params: Mapping[str, Value], sized: Sized) -> str:
    """Return what is wrong at one size, with inputs in fp32, or as they are if it needs that."""
    try:
        return _compared(loaded, params, sized, narrow=False)
    except _UnjudgedError:
        raise
    except Exception:
        return _compared(loaded, params, sized, narrow=True)


def _compared(loaded: LoadedKernel, params: Mapping[str, Value], sized: Sized, narrow: bool) -> str:
    workload = _trial._workload(loaded, params, sized, narrow)
    if workload.check is not None:
        raise _UnjudgedError("the file compares by its own check()")
    want = [out.detach() for out in reference_in(workload, torch.float64, 0)]
    again = _trial._workload(loaded, params, sized, narrow)
    if any(_far(a.detach(), b) for a, b in zip(reference_in(again, torch.float64, 1), want)):
        raise _UnjudgedError("the reference draws random numbers")
    workload = _trial._workload(loaded, params, sized, narrow)
    outputs, seen = _outputs(workload)
    if len(outputs) != len(want):
        return f"{len(outputs)} outputs; the reference has {len(want)}"
    rtol = 0.0 if workload.tolerance is None else workload.tolerance.rtol
    for index, (got, true) in enumerate(zip(outputs, want, strict=True)):
        if got.shape != true.shape:
            return f"output {index} has shape {tuple(got.shape)}, expected {tuple(true.shape)}"
        part = torch.ones(got.shape, dtype=torch.bool) if seen is None else seen[index]
        if bool((_trial._broken(got, true) & part).any()):
            return f"output {index} has other elements that are not numbers, or were never written"
        error = _trial._error(got, true, part)
        if error > max(_FAR, 4 * rtol):
            return f"output {index} is off by {error:.2g} of its size"
    return ""


def _outputs(workload: object) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """Return the candidate's outputs and which elements count; no Triton launch is needed."""
    ran = _trial._run(workload, _SECONDS, must_launch=False)  # type: ignore[arg-type]
    return ran.outputs, ran.seen


def _far(got: torch.Tensor, want: torch.Tensor) -> bool:
    return is_inexact(want) and bool((got - want).abs().max() > 0) if want.numel() else False
