"""Jobs of the checker's child processes: kernels under Triton's interpreter, and comparisons.

Both functions run user code. They are called through `solkit.processes.jobs` in processes that have
``TRITON_INTERPRET=1`` and no GPU.
"""

from __future__ import annotations

import io
import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from solkit.adapters import triton_interpreter
from solkit.adapters.triton_interpreter import Watch
from solkit.core import Value
from solkit.kernelfiles import LoadedKernel, Workload, load
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.exact import is_inexact, reference_in
from solkit.tuner.proposers._cases import Sized, sizes_to_try

__all__ = ["judge", "prepare", "warm_up"]

_PARENT_S, _VARIANT_S = 0.4, 0.6
"""Seconds for each launch; a launch cut short is a sample of its programs."""

_PATIENT_S = 4.0
"""The same for tiny problems, which are run whole."""

_TIMES_PARENT = 4.0
"""Ratio to its parent's error that a variant may have: 2.1 for the largest of many errors, and 2
for another order of operations (see `solkit.measure.checking.tolerance`)."""

_LEAST_SHARE = 2.0**-15
"""Error that is always allowed, relative to an output and to their root mean square (ibid.)."""

_WRONG_PARENT = 0.05
"""A parent that is off by more computes something else here than on a GPU."""

_SEED = 0
_FEW_SMS = 32

Outputs = list[torch.Tensor]


def warm_up() -> None:
    """Load what all trials need, once."""
    torch.set_num_threads(1)
    triton_interpreter.install()


@dataclass(frozen=True)
class _Case:
    """One size, with the correct outputs and how far the parent is from them.

    Attributes:
        shape, why, offset: of `Sized`.
        narrow: whether floating inputs keep their dtypes; else they are fp32.
        want: the reference's outputs in fp64.
        errors: the parent's largest error in each output, relative; NaN if nothing was compared.
        broken: for each output, the elements at which the parent is not what is wanted, although
            one of the two is not finite.
    """

    shape: dict[str, Value]
    why: str
    offset: float
    narrow: bool
    want: Outputs
    errors: list[float]
    broken: list[torch.Tensor]

    @property
    def sized(self) -> Sized:
        return Sized(self.shape, self.why, self.offset)


@dataclass(frozen=True)
class _Ran:
    """Outputs of one run.

    Attributes:
        outputs: all that it returned or wrote.
        seen: for each output, which elements count; ``None`` if all do.
    """

    outputs: Outputs
    seen: list[torch.Tensor] | None


class _UnjudgedError(Exception):
    """The run was cut short in a way that says nothing about its outputs."""


# ------------------------------------------------------------------------------------- the parent


def prepare(
    problem: str, kernel: str, params: Mapping[str, Value], shape: Mapping[str, Value]
) -> tuple[str, bytes]:
    """Run a parent at each size.

    Returns:
        Why there are no cases, or nothing; and the cases, for `judge`.
    """
    _arrange()
    loaded = load(kernel, problem if problem != kernel else None)
    held_out = loaded.description.problem.held_out_shapes
    cases: list[_Case] = []
    failures: list[str] = []
    for sized in sizes_to_try(loaded.full_shape(shape), held_out):
        for narrow in (False, True):
            try:
                cases.append(_case(loaded, dict(params), sized, narrow))
                break
            except Exception as error:  # user code in an interpreter that lacks some operations
                failures.append(f"{sized.describe()}: {_said(error)}")
    saved = io.BytesIO()
    torch.save([asdict(case) for case in cases], saved)
    return "" if cases else failures[0], saved.getvalue()


def _case(loaded: LoadedKernel, params: dict[str, Value], sized: Sized, narrow: bool) -> _Case:
    workload = _workload(loaded, params, sized, narrow)
    want = [_detached(out) for out in reference_in(workload, torch.float64, _SEED)]
    ran = _run(_workload(loaded, params, sized, narrow), _limit(sized, _PARENT_S))
    pairs = list(zip(ran.outputs, want, strict=True))
    errors = [_error(got, true, _part(ran, index)) for index, (got, true) in enumerate(pairs)]
    if any(error > _WRONG_PARENT for error in errors):
        raise ValueError("its parent's results differ from the reference's here")
    broken = [_broken(got, true) for got, true in pairs]
    return _Case(dict(sized.shape), sized.why, sized.offset, narrow, want, errors, broken)


# ------------------------------------------------------------------------------------ the variant


def judge(problem: str, variant: str, saved: bytes) -> tuple[str, str]:
    """Run a variant at each of its parent's sizes, as `prepare` gave them.

    Returns:
        ``"right"``, ``"wrong"`` or ``"unchecked"``, and the reason.
    """
    _arrange()
    cases = [_Case(**fields) for fields in torch.load(io.BytesIO(saved), weights_only=True)]
    loaded = load(variant, problem)
    judged, whole = 0, 0
    for case in cases:
        try:
            ran, complete = _tried(loaded, case)
        except _UnjudgedError:
            continue
        except Exception as error:
            kind = "unchecked" if _is_lacking(error) else "wrong"
            return kind, f"{case.sized.describe()}: {_said(error)}"
        difference = _difference(ran, case)
        if difference:
            return "wrong", f"{case.sized.describe()}: {difference}"
        judged, whole = judged + 1, whole + complete
    if not whole:
        return "unchecked", "the interpreter is too slow to run any size whole"
    return "right", f"it agrees with the reference at {judged} sizes"


def _tried(loaded: LoadedKernel, case: _Case) -> tuple[_Ran, bool]:
    candidate = loaded.description.candidate
    params = dict(candidate.params) if candidate is not None else {}
    limit_s = _limit(case.sized, _VARIANT_S)
    ran = _run(_workload(loaded, params, case.sized, case.narrow), limit_s)
    return ran, ran.seen is None


def _difference(ran: _Ran, case: _Case) -> str:
    """Return what is wrong with outputs; nothing if they are right."""
    if len(ran.outputs) != len(case.want):
        return f"{len(ran.outputs)} outputs; the reference has {len(case.want)}"
    for index, (got, want) in enumerate(zip(ran.outputs, case.want, strict=True)):
        if got.shape != want.shape:
            return f"output {index} has shape {tuple(got.shape)}, expected {tuple(want.shape)}"
        counts = ~case.broken[index] & _part(ran, index)
        if bool((_broken(got, want) & counts).any()):
            return f"output {index} has other elements that are not numbers, or were never written"
        error, parent = _error(got, want, counts), case.errors[index]
        narrow = is_inexact(got) and got.dtype not in _WIDE
        share = 2 * torch.finfo(got.dtype).eps if narrow else _LEAST_SHARE
        if error > _TIMES_PARENT * (0.0 if parent != parent else parent) + share:
            return f"output {index} is off by {error:.2g}; its parent by {parent:.2g}"
    return ""


# ------------------------------------------------------------------------------------- running


def _arrange() -> None:
    """Fill unwritten memory with NaN; give launchers that ask for the number of SMs one."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    properties = types.SimpleNamespace(multi_processor_count=_FEW_SMS, major=9, minor=0)
    cuda: Any = torch.cuda
    cuda.get_device_properties = lambda *_: properties
    cuda.get_device_capability = lambda *_: (9, 0)


def _limit(sized: Sized, usual_s: float) -> float:
    return _PATIENT_S if sized.is_tiny else usual_s


def _workload(
    loaded: LoadedKernel, params: Mapping[str, Value], sized: Sized, narrow: bool
) -> Workload:
    seed_everything(_SEED)
    workload = loaded.workload(sized.shape, params, "cpu")
    arguments = (workload.args, dict(workload.kwargs))
    args, kwargs = tree_map(lambda leaf: _input(leaf, sized.offset, narrow), arguments)
    return replace(workload, args=args, kwargs=kwargs)


def _input(leaf: Any, offset: float, narrow: bool) -> Any:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
        return leaf
    wide = leaf if narrow or leaf.dtype in _WIDE or leaf.element_size() == 1 else leaf.float()
    return wide + offset if offset and leaf.dim() > 1 else wide


_WIDE = (torch.float32, torch.float64)


def _run(workload: Workload, limit_s: float, must_launch: bool = True) -> _Ran:
    seen = triton_interpreter.watch(limit_s, _SEED)
    seed_everything(_SEED)
    outputs = [_detached(out) for out in workload.run_kernel()]
    if must_launch and not seen.launches:
        raise ValueError("it launches no Triton kernel")
    if not seen.skipped:
        return _Ran(outputs, None)
    if seen.launches > 1 or seen.atomics:
        raise _UnjudgedError
    return _Ran(outputs, [_written(out, seen) for out in outputs])


def _written(output: torch.Tensor, seen: Watch) -> torch.Tensor:
    """Tell for each element of an output whether it was stored."""
    marks = torch.zeros(output.shape, dtype=torch.bool)
    if not output.is_contiguous():
        raise _UnjudgedError
    start, size = output.data_ptr(), output.element_size()
    flat = marks.view(-1)
    for addresses in seen.written:
        places = torch.from_numpy(addresses.astype("int64").reshape(-1)) - start
        inside = places[(places >= 0) & (places < flat.numel() * size)]
        flat[inside // size] = True
    return marks


def _detached(output: torch.Tensor) -> torch.Tensor:
    return output.detach()


# ------------------------------------------------------------------------------------- comparing


def _part(ran: _Ran, index: int) -> torch.Tensor:
    if ran.seen is not None:
        return ran.seen[index]
    return torch.ones(ran.outputs[index].shape, dtype=torch.bool)


def _error(got: torch.Tensor, want: torch.Tensor, part: torch.Tensor) -> float:
    """Return the largest relative error of finite elements; 0 or 1 for integers; NaN for none."""
    if not bool(part.any()):
        return float("nan")
    mine, true = got[part], want[part]
    if not is_inexact(got):
        return float(bool((mine != true).any()))
    mine, true = mine.double(), true.double()
    finite = mine.isfinite() & true.isfinite()
    mine, true = mine[finite], true[finite]
    if not true.numel():
        return float("nan")
    level = true.square().mean().sqrt()
    return float(((mine - true).abs() / (true.abs() + level).clamp(min=1e-30)).max())


def _broken(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Tell for each element whether one of the two is not finite and the other is not the same."""
    if not is_inexact(got):
        return torch.zeros(got.shape, dtype=torch.bool)
    mine, true = got.double(), want.double()
    same = (mine == true) | (mine.isnan() & true.isnan())
    return ~same & ~(mine.isfinite() & true.isfinite())


_LACKING = ("NotImplementedError", "InterpreterBuilder", "not supported in interpreter")


def _is_lacking(error: Exception) -> bool:
    """Tell whether the interpreter lacks an operation, as its messages have it."""
    text = f"{type(error).__name__}: {error}"
    return any(word in text for word in _LACKING)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
