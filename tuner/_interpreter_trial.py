"""Jobs of the checker's child processes: kernels under Triton's interpreter, and comparisons.

All of them run user code. They are called through `solkit.processes.jobs` in processes that have
``TRITON_INTERPRET=1`` and no GPU.

`solkit.tuner._trial_sizes` says at which sizes they run. A search will run a variant with other
parameters, and users with other inputs. So the smallest sizes are also run with a few
configurations that differ most, and some with inputs of other layouts and values, as far as the
parent takes these (`solkit.tuner._trial_inputs`).

A candidate without a parent is checked alone. A correct kernel may need sizes that divide, and the
interpreter computes in fp32 what tensor cores round. So it is called wrong only if it is far off at
every size that was run, and no awkward size is tried.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from solkit.adapters import seeming_gpu, triton_interpreter
from solkit.adapters.seeming_gpu import SeemingGpu
from solkit.adapters.triton_interpreter import Watch
from solkit.core import Space, Value
from solkit.errors import SolkitError
from solkit.kernelfiles import LoadedKernel, Workload, load, look_ahead
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.exact import is_inexact, nearby_outputs, reference_in
from solkit.measure.checking.tolerance import Standard
from solkit.processes.priority import lower_priority
from solkit.roofline import devices
from solkit.tuner._trial_inputs import OWN, Change, changed_inputs, has_plain_values, noted_strides
from solkit.tuner._trial_sizes import (
    SizeLimits,
    TrialSize,
    by_length,
    even_sizes,
    fixed_weight,
    possible_limits,
    size_values,
    sizes_to_try,
)

_PARENT_S, _VARIANT_S = 0.4, 0.6
"""Seconds for each launch; a launch cut short is a sample of its programs."""

_PATIENT_S = 4.0
"""The same for tiny problems, which are run whole."""

_ENOUGH_S = 8.0
"""Processor seconds after which no further size is tried, once one was run whole."""

_OTHERS_SHARE, _LEAST_OTHERS_S = 0.15, 0.1
"""Processor seconds for other parameters: a share of those of its own; and at least so many."""

_LEAST_ENDS, _MOST_ENDS, _MIXED_ENDS = ((0, 0),), ((-1, -1),), ((0, -1), (-1, 0))
_ENDS = (*_MOST_ENDS, *_LEAST_ENDS, *_MIXED_ENDS)
"""Of the values of parameters at even places and at odd ones: the largest, or the smallest."""
_SURE_OTHERS, _SURE_S = 4, 0.4
"""Ends of each sort run in any case, with at least these seconds a launch."""

_MOST_OTHER_SIZES = 3
_IRRELEVANT = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MOST_ELEMENTS = 1 << 16
"""Largest product of blocks that are tried: the interpreter holds as much for every value."""

_TIMES_PARENT = 4.0
"""Ratio to its parent's error that a variant may have: 2.1 for the largest of many errors, and 2
for another order of operations (see `solkit.measure.checking.tolerance`)."""

_TIMES_PLAIN = 2.0
"""The same to the error of the reference in fp32. A parent can be lucky: with means of 100, one of
causal attention was off by 0.00009, the reference by 0.0003 to 0.0006, by the draw."""

_LEAST_SHARE = 2.0**-15
"""Error that is always allowed, relative to an output and to their root mean square (ibid.)."""

_WRONG_PARENT = 0.05
"""A parent that is off by more computes something else here than on a GPU."""

_NEARBY, _ROUNDING = 8, 4 * torch.finfo(torch.float32).eps
"""Inputs, off by so much, on which the reference computes integers again in fp32, as places of
extrema: what rounding decides is decided in another way on half of them."""

_SEED = 0
_LIKE, _FEW_SMS = "h100", 32

Outputs = list[torch.Tensor]


def warm_up() -> None:
    """Load what all trials need, once."""
    torch.set_num_threads(1)
    triton_interpreter.install()
    look_ahead()


@dataclass(frozen=True)
class _Case:
    """One size, with the correct outputs and how far the parent is from them.

    Attributes:
        sized: the size, without the changes of inputs that are tried.
        change: of the inputs, which was made.
        narrow: whether floating inputs keep their dtypes; else they are fp32.
        want: the reference's outputs in fp64.
        errors: the parent's largest error in each output, relative; NaN if nothing was compared.
        broken: for each output, the elements at which the parent is not what is wanted, although
            one of the two is not finite; of integers, those that rounding decides.
        backwards: whether the variant's programs run from the last to the first, since a GPU runs
            them in any order. Those of a parent with atomics may wait for one another.
        plain: the same as `errors`, of the reference in fp32; empty if it was not run so.
        is_sample: whether some of the parent's programs did not run.
        place: among the sizes that were to be tried.
    """

    sized: TrialSize
    change: Change
    narrow: bool
    want: Outputs
    errors: list[float]
    broken: list[torch.Tensor]
    backwards: bool
    plain: list[float]
    is_sample: bool
    place: int = 0

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> _Case:
        """Return the case of which `asdict` gave the fields."""
        sized, change = TrialSize(**fields["sized"]), Change(**fields["change"])
        return _Case(**{**fields, "sized": sized, "change": change})

    @property
    def is_odd(self) -> bool:
        """True if no block divides some size."""
        return any(size % 2 and size > 1 for size in size_values(self.sized.shape).values())

    def describe(self) -> str:
        """Return size and inputs, in words."""
        changed = self.change.describe()
        return f"{self.sized.describe()}{', ' if changed else ''}{changed}"


@dataclass(frozen=True)
class _RunOutputs:
    """Outputs of one run.

    Attributes:
        outputs: all that it returned or wrote.
        seen: for each output, which elements count; ``None`` if all do.
        atomics: whether there were atomic operations.
    """

    outputs: Outputs
    seen: list[torch.Tensor] | None
    atomics: bool


class _FarOffError(Exception):
    """A parent computes something else at a size."""


class _NoVerdictError(Exception):
    """Nothing can be said of a candidate's outputs here; the text says why."""


class _UnjudgedError(_NoVerdictError):
    """The run was cut short in a way that says nothing about its outputs."""

    def __str__(self) -> str:
        return "its launches take too long, and one reads what another writes"


# ------------------------------------------------------------------------------------- the parent


def prepare(
    problem: str,
    kernel: str,
    params: Mapping[str, Value],
    shape: Mapping[str, Value],
    part: int = 0,
    parts: int = 1,
) -> tuple[str, bytes]:
    """Run a parent at each size, or at every so many of the sizes.

    Args:
        problem: path of the file with the problem.
        kernel: path of the parent's file.
        params: of the parent.
        shape: of the search.
        part: the first size that is run.
        parts: how many calls share the sizes.

    Returns:
        Why there are no cases, or nothing; and the cases, for `judge`, if there are any.
    """
    _arrange_process(is_awaited=True)
    loaded = _load_file(kernel, problem if problem != kernel else None)
    held_out = loaded.description.problem.held_out_shapes
    cases: list[_Case] = []
    failures: list[str] = []
    whole = loaded.full_shape(shape)
    weight = fixed_weight(loaded, whole)
    limits = _size_limits(loaded, dict(params), whole, weight)
    sizes = list(enumerate(sizes_to_try(whole, held_out, weight, limits)))
    forms: tuple[bool, ...] = _FORMS
    is_telling, began = False, time.process_time()
    for place, sized in sorted(sizes[part::parts], key=lambda placed: _elements_of(placed[1])):
        if cases and time.process_time() - began > _ENOUGH_S:
            break
        for narrow in forms:
            try:
                case = _case_at_size(loaded, dict(params), sized, narrow)
                cases.append(replace(case, place=place))
                if narrow and is_telling:  # it needs its dtypes: trying others takes as long again
                    forms = (True, False)
                break
            except _UnjudgedError as error:  # so are larger sizes, whatever the form
                failures.append(f"{sized.describe()}: {_error_text(error)}")
                forms = ()
                break
            except Exception as error:  # user code in an interpreter that lacks some operations
                is_telling = not isinstance(error, _FarOffError)
                failures.append(f"{sized.describe()}: {_error_text(error)}")
    if not cases:
        return "".join(failures[:1]), b""
    saved = io.BytesIO()
    torch.save([asdict(case) for case in cases], saved)
    return "", saved.getvalue()


def _size_limits(
    loaded: LoadedKernel, params: dict[str, Value], shape: Mapping[str, Value], weight: int
) -> SizeLimits:
    """Return the smallest sizes that a parent takes: it may need whole blocks, as of a page."""

    def is_right(sizes: Mapping[str, Value]) -> bool:
        return _is_right_at(loaded, params, sizes)

    for limits in possible_limits():
        small = limits.tiny(shape, weight)
        if is_right(small):
            break
    else:
        return SizeLimits()
    if is_right(limits.awkward(small)):
        return limits
    rigid = frozenset(name for name, sizes in limits.odd_shapes(small) if not is_right(sizes))
    longer = {name: limits.lengthened(small, name) for name in by_length(shape) if name in rigid}
    shapes = ((name, sizes) for name, sizes in longer.items() if sizes != small)
    long = next((name for name, sizes in shapes if is_right(sizes)), "")
    return replace(limits, rigid=rigid, long=long)


def _is_right_at(
    loaded: LoadedKernel, params: dict[str, Value], sizes: Mapping[str, Value]
) -> bool:
    """Tell whether a parent is right at a size, in its first programs and its last ones."""
    for narrow in _FORMS:
        try:
            case, _ = _case_with(loaded, params, TrialSize(sizes, ""), narrow, OWN)
            if not case.is_sample:
                return True
            workload = _cpu_workload(loaded, params, case.sized, narrow)
            return not _difference(_run_kernel(workload, _PARENT_S, backwards=True), case)
        except (triton_interpreter.OutsideError, _FarOffError):
            return False
        except Exception:  # user code, which may need its dtypes
            continue
    return False


_FORMS = (False, True)
"""Whether floating inputs keep their dtypes."""


def _case_at_size(
    loaded: LoadedKernel, params: dict[str, Value], sized: TrialSize, narrow: bool
) -> _Case:
    """Return a case with the first change of the inputs that the parent takes, or with none."""
    case, noted = _case_with(loaded, params, sized, narrow, OWN)
    if not (sized.changes and sized.is_tiny_problem):
        return case
    redraws = has_plain_values(_cpu_workload(loaded, params, sized, narrow))
    possible = {
        Change(
            change.layout if noted else "",
            change.is_redrawn and redraws,
            tuple(sorted(noted)) if change.layout else (),
        ): None
        for change in sized.changes
    }
    for change in (change for change in possible if change != OWN):
        with contextlib.suppress(Exception):  # the parent needs what the problem's inputs have
            return _case_with(loaded, params, sized, narrow, change)[0]
    return case


def _case_with(
    loaded: LoadedKernel, params: dict[str, Value], sized: TrialSize, narrow: bool, change: Change
) -> tuple[_Case, set[int]]:
    """Return a case, and the inputs whose strides the parent asks for."""
    workload = _cpu_workload(loaded, params, sized, narrow, change)
    want = [_detach_output(out) for out in _reference_in(workload, torch.float64, _SEED)]
    tied = _tied_elements(workload, want)
    workload = _cpu_workload(loaded, params, sized, narrow, change)
    plain = [] if narrow else _plain_errors(workload, want)
    workload = _cpu_workload(loaded, params, sized, narrow, change)
    with noted_strides(workload, triton_interpreter.is_launching) as noted:
        ran = _run_kernel(workload, _launch_limit_s(sized, _PARENT_S))
    pairs = list(zip(ran.outputs, want, strict=True))
    compared = [_compared_elements(ran, index) for index in range(len(pairs))]
    errors = [
        _relative_error(got, true, elements & ~ties)
        for (got, true), elements, ties in zip(pairs, compared, tied, strict=True)
    ]
    if any(error > _WRONG_PARENT for error in errors):
        raise _FarOffError("its parent's results differ from the reference's here")
    broken = [_broken_elements(got, true) for got, true in pairs]
    if any(bool(e.any() and part[e].all()) for e, part in zip(compared, broken, strict=True)):
        raise _FarOffError("its parent gives no number that is expected here")  # of no programs
    if change != OWN and any(bool(part.any()) for part in broken):
        raise ValueError("its parent gives what is no number here")
    backwards = not ran.atomics and sized.is_tiny_problem
    size, is_sample = replace(sized, shape=dict(sized.shape), changes=()), ran.seen is not None
    broken = [one | two for one, two in zip(broken, tied, strict=True)]
    case = _Case(size, change, narrow, want, errors, broken, backwards, plain, is_sample)
    return case, noted


def _tied_elements(workload: Workload, want: Outputs) -> list[torch.Tensor]:
    """Tell for each element of integers and bools whether rounding in fp32 may give another one."""
    tied = [torch.zeros(out.shape, dtype=torch.bool) for out in want]
    for draw in range(_NEARBY if not all(map(is_inexact, want)) else 0):
        with SeemingGpu():
            near = nearby_outputs(workload, _SEED, torch.float32, draw, _ROUNDING)
        for mark, one, two in zip(tied, near, want, strict=True):
            mark |= (one != two) if not is_inexact(two) and one.shape == two.shape else mark
    return tied


def _plain_errors(workload: Workload, want: Outputs) -> list[float]:
    """Return how far the reference in fp32 is from itself in fp64, for each output; none if not."""
    try:
        plain = [_detach_output(out) for out in _reference_in(workload, torch.float32, _SEED)]
        pairs = zip(plain, want, strict=True)
        errors = [
            _relative_error(got, true, torch.ones_like(true, dtype=torch.bool))
            for got, true in pairs
        ]
    except Exception:  # a reference may need a width of its own
        return []
    return [error if error <= _WRONG_PARENT else 0.0 for error in errors]


# ------------------------------------------------------------------------------------ the variant


def judge(
    problem: str, variant: str, saved: Sequence[bytes], parent: str | None = None
) -> tuple[str, str]:
    """Run a variant at each of its parent's sizes, as calls of `prepare` gave them.

    The smallest comes first: it costs little, and is run whole by a variant that is slow. What is
    right with its own parameters is then run with others.

    Args:
        problem: path of the file with the problem.
        variant: path of the variant's file.
        saved: of `prepare`.
        parent: path of the parent's file, which may be wrong with other parameters, too.

    Returns:
        ``"right"``, ``"wrong"`` or ``"unchecked"``, and the reason.
    """
    _arrange_process()
    loaded = _load_file(variant, problem)
    judged, whole, began = 0, 0, time.process_time()
    cases = _ordered_cases(saved)
    for case in cases:
        if whole and time.process_time() - began > _ENOUGH_S:
            break
        own = _own_params(loaded)
        kind, why = _judge_case(loaded, case, own)
        if kind == "wrong" and _is_parents_fault(case, own, problem, parent):
            continue
        if kind in ("wrong", "refused", "unchecked"):
            return ("wrong" if kind == "refused" else kind), why
        judged, whole = judged + (kind != "unjudged"), whole + (kind == "right")
    if not whole:
        return "unchecked", "the interpreter is too slow to run any size whole"
    limit_s = max(_OTHERS_SHARE * (time.process_time() - began), _LEAST_OTHERS_S)
    wrong = _wrong_with_others(loaded, cases, time.process_time() + limit_s, problem, parent)
    return (
        ("wrong", wrong) if wrong else ("right", f"it agrees with the reference at {judged} sizes")
    )


def _judge_case(
    loaded: LoadedKernel,
    case: _Case,
    params: Mapping[str, Value],
    most_s: float = math.inf,
    least_s: float = 0.0,
) -> tuple[str, str]:
    """Return how a variant does at one size: ``"right"``, or ``"partly"`` if that was cut short.

    Else ``"unjudged"``, or ``"wrong"``, ``"refused"`` or ``"unchecked"`` with the reason: Triton
    refuses parameters before anything runs. A launch gets `most_s` processor seconds, if that is
    less than it gets anyway, and `least_s` at least.
    """
    limit_s = max(min(_launch_limit_s(case.sized, _VARIANT_S), most_s), least_s)
    try:
        ran, complete = _run_variant(loaded, case, params, limit_s)
    except _UnjudgedError:
        return "unjudged", ""
    except Exception as error:
        kind = "unchecked" if _is_lacking(error) else "wrong"
        kind = "refused" if _is_refused(error) else kind
        return kind, f"{case.describe()}: {_error_text(error)}"
    difference = _difference(ran, case)
    if difference:
        return "wrong", f"{case.describe()}: {difference}"
    return ("right" if complete else "partly"), ""


def _own_params(loaded: LoadedKernel) -> dict[str, Value]:
    candidate = loaded.description.candidate
    return dict(candidate.params) if candidate is not None else {}


def _wrong_with_others(
    loaded: LoadedKernel, cases: Sequence[_Case], end_s: float, problem: str, parent: str | None
) -> str:
    """Return what is wrong with other parameters, at sizes that are run whole; nothing if right.

    A parent that is as wrong with them blames no variant.

    Args:
        loaded: the variant.
        cases: of its parent, those to begin with first.
        end_s: of the process's time, after which no other run begins.
        problem: path of the file with the problem.
        parent: path of the parent's file.
    """
    for count, (case, params) in enumerate(_others_to_run(loaded, cases)):
        left_s = end_s - time.process_time()
        if count < _SURE_OTHERS:
            left_s = max(left_s, _SURE_S)
        elif left_s < 0:
            break
        kind, why = _judge_case(loaded, case, params, left_s)
        if kind == "wrong" and not _is_parents_fault(case, params, problem, parent):
            own = _own_params(loaded)
            listed = ", ".join(f"{n}={v}" for n, v in params.items() if v != own.get(n))
            return f"with {listed}, {why}"
    return ""


def _others_to_run(
    loaded: LoadedKernel, cases: Sequence[_Case]
) -> Iterator[tuple[_Case, dict[str, Value]]]:
    """Yield sizes and other parameters that are legal there: each of these once, then again.

    The smallest blocks, and small ones beside large ones, come early at a size that has several of
    the small ones: what counts blocks by another size is right where one is enough.
    """
    plain, own = [case for case in cases if not case.sized.offset], _own_params(loaded)
    if not own:
        return
    tiny = [case for case in plain if case.sized.is_tiny_problem]
    tiny.sort(key=lambda case: (not case.is_odd, _elements_of(case.sized)))
    large = [case for case in plain if not case.sized.is_tiny_problem]
    by_size = partial(sorted, key=lambda case: _elements_of(case.sized))
    several = by_size(large)[:1] or by_size(tiny)[-1:]
    early = (several, _LEAST_ENDS), (tiny[:1], _MOST_ENDS), (several, _MIXED_ENDS)
    done: list[tuple[_Case, dict[str, Value]]] = []
    for group, ends in (*early, (tiny[:_MOST_OTHER_SIZES], _ENDS)):
        for case in group:
            with contextlib.suppress(SolkitError):  # a constraint that fails at so small a size
                for params in differing_configs(loaded.space(case.sized.shape), own, ends):
                    if not any(case is other and params == same for other, same in done):
                        done.append((case, params))
                        yield case, params


def _elements_of(sized: TrialSize) -> int:
    return math.prod(size_values(sized.shape).values())


def _is_parents_fault(
    case: _Case, params: Mapping[str, Value], problem: str, parent: str | None
) -> bool:
    """Tell whether a parent is wrong with those of the parameters that it has, too.

    With its own it was right, as far as its programs ran: the others may fail as the variant's do.
    """
    if parent is None:
        return False
    loaded = _load_file(parent, problem if problem != parent else None)
    own = _own_params(loaded)
    shared = {name: params.get(name, value) for name, value in own.items()}
    if shared == own and not case.is_sample:
        return False
    least_s = _PATIENT_S if case.is_sample else 0.0
    return _judge_case(loaded, case, shared, least_s=least_s)[0] == "wrong"


def differing_configs(
    space: Space, own: Mapping[str, Value], ends: Sequence[tuple[int, int]] = _ENDS
) -> list[dict[str, Value]]:
    """Return a few legal configurations that differ most from one, without two that are alike.

    They have the largest blocks, which cost least, the smallest, and both by turns. Numbers of
    warps and of stages stay, since the interpreter knows neither.
    """
    varied = {
        name: sorted(v for v in values if isinstance(v, int) and v is not True)
        for name, values in space.values.items()
        if name in own and not any(word in name for word in _IRRELEVANT) and len(values) > 1
    }
    varied = {name: values for name, values in varied.items() if values}
    configs: list[dict[str, Value]] = []
    for even, odd in ends if varied else ():
        ranked = enumerate(varied.items())
        sized = {name: v[odd if place % 2 else even] for place, (name, v) in ranked}
        legal = _legal_towards(space, own, sized)
        if legal and legal != dict(own) and legal not in configs:
            configs.append(legal)
    return configs


def _legal_towards(
    space: Space, own: Mapping[str, Value], sized: Mapping[str, Value]
) -> dict[str, Value]:
    """Return a configuration with as many of these values as are legal, a small product of them.

    The product may be as large as the configuration's own, which was run.
    """

    def product(params: Mapping[str, Value]) -> int:
        blocks = (abs(v) for n, v in params.items() if n in sized and isinstance(v, int))
        return math.prod(max(block, 1) for block in blocks)

    result, most = dict(own), max(_MOST_ELEMENTS, product(own))
    for name in sorted(sized, key=lambda name: product({name: sized[name]})):  # room for large ones
        tried = {**result, name: sized[name]}
        if product(tried) <= most and tried in space:
            result = tried
    return result


def _ordered_cases(saved: Sequence[bytes]) -> list[_Case]:
    parts = [torch.load(io.BytesIO(part), weights_only=True) for part in saved]
    cases = [_Case.from_fields(fields) for part in parts for fields in part]
    cases.sort(key=lambda case: case.place)
    smallest = min(cases, key=lambda case: _elements_of(case.sized))
    return [smallest, *(case for case in cases if case is not smallest)]


def _run_variant(
    loaded: LoadedKernel, case: _Case, params: Mapping[str, Value], limit_s: float
) -> tuple[_RunOutputs, bool]:
    workload = _cpu_workload(loaded, params, case.sized, case.narrow, case.change)
    ran = _run_kernel(workload, limit_s, backwards=case.backwards)
    return ran, ran.seen is None


def _difference(ran: _RunOutputs, case: _Case) -> str:
    """Return what is wrong with outputs; nothing if they are right."""
    if len(ran.outputs) != len(case.want):
        return f"{len(ran.outputs)} outputs; the reference has {len(case.want)}"
    for index, (got, want) in enumerate(zip(ran.outputs, case.want, strict=True)):
        if got.shape != want.shape:
            return f"output {index} has shape {tuple(got.shape)}, expected {tuple(want.shape)}"
        counts = ~case.broken[index] & _compared_elements(ran, index)
        if bool((_broken_elements(got, want) & counts).any()):
            return f"output {index} has other elements that are not numbers, or were never written"
        if not is_inexact(got) and _are_few(got[counts] != want[counts], case.broken[index]):
            continue
        error, parent = _relative_error(got, want, counts), case.errors[index]
        narrow = is_inexact(got) and got.dtype not in _WIDE
        share = 2 * torch.finfo(got.dtype).eps if narrow else _LEAST_SHARE
        allowed = _TIMES_PARENT * (0.0 if parent != parent else parent)
        if case.plain:  # another order of operations, by which a parent may happen to do well
            allowed = max(allowed, _TIMES_PLAIN * case.plain[index])
        if error > allowed + share:
            return f"output {index} is off by {error:.2g}; its parent by {parent:.2g}"
    return ""


def _are_few(others: torch.Tensor, tied: torch.Tensor) -> bool:
    """Tell whether so few integers are others that rounding decides as many: not all of these show.

    Where it decides none, none may be another.
    """
    return int(others.sum()) <= int(tied.sum())


# ------------------------------------------------------------------------------------- running


def _arrange_process(is_awaited: bool = False) -> None:
    """Fill unwritten memory with NaN; answer launchers that ask for the GPU or choose one.

    Candidates may be measured meanwhile, so others come first. What is compiled comes after a
    parent, for which all checks wait, but not after a check: the GPU waits only a while for that.
    """
    lower_priority(is_awaited)
    torch.use_deterministic_algorithms(True, warn_only=True)
    seeming_gpu.answer_as(replace(devices.find(_LIKE), sm_count=_FEW_SMS))


def _load_file(kernel: str, problem: str | None) -> LoadedKernel:
    with SeemingGpu():
        return load(kernel, problem)


def _reference_in(workload: Workload, dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    with SeemingGpu():
        return reference_in(workload, dtype, seed)


def _launch_limit_s(sized: TrialSize, usual_s: float) -> float:
    return _PATIENT_S if sized.is_tiny_problem else usual_s


def _cpu_workload(
    loaded: LoadedKernel,
    params: Mapping[str, Value],
    sized: TrialSize,
    narrow: bool,
    change: Change = OWN,
) -> Workload:
    seed_everything(_SEED)
    with SeemingGpu():
        workload = loaded.workload(sized.shape, params, "cpu")
    arguments = (workload.args, dict(workload.kwargs))
    args, kwargs = tree_map(lambda leaf: _prepare_input(leaf, sized.offset, narrow), arguments)
    workload = replace(workload, args=args, kwargs=kwargs)
    if change == OWN:
        return workload
    args, kwargs = changed_inputs(workload, change)
    return replace(workload, args=args, kwargs=kwargs)


def _prepare_input(leaf: Any, offset: float, narrow: bool) -> Any:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
        return leaf
    wide = leaf if narrow or leaf.dtype in _WIDE or leaf.element_size() == 1 else leaf.float()
    return wide + offset if offset and leaf.dim() > 1 else wide


_WIDE = (torch.float32, torch.float64)


def _run_kernel(
    workload: Workload, limit_s: float, must_launch: bool = True, backwards: bool = False
) -> _RunOutputs:
    seen = triton_interpreter.watch_launches(limit_s, _SEED, backwards)
    seed_everything(_SEED)
    with SeemingGpu():
        outputs = [_detach_output(out) for out in workload.run_kernel()]
    if must_launch and not seen.launches:
        raise ValueError("it launches no Triton kernel")
    if not seen.skipped:
        return _RunOutputs(outputs, None, seen.atomics)
    if seen.launches > 1 or seen.atomics:
        raise _UnjudgedError
    return _RunOutputs(outputs, [_stored_elements(out, seen) for out in outputs], False)


def _stored_elements(output: torch.Tensor, seen: Watch) -> torch.Tensor:
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


def _detach_output(output: torch.Tensor) -> torch.Tensor:
    return output.detach()


# ------------------------------------------------------------------------------------- comparing


def _compared_elements(ran: _RunOutputs, index: int) -> torch.Tensor:
    if ran.seen is not None:
        return ran.seen[index]
    return torch.ones(ran.outputs[index].shape, dtype=torch.bool)


def _relative_error(got: torch.Tensor, want: torch.Tensor, part: torch.Tensor) -> float:
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


def _broken_elements(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
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


def _is_refused(error: Exception) -> bool:
    """Tell whether Triton refuses the shape of a block, as its compiler does for a GPU."""
    source = error.__cause__ or error  # the interpreter wraps what a kernel raises
    frames = traceback.extract_tb(source.__traceback__)
    return bool(frames) and frames[-1].name in ("validate_block_shape", "arange")


def _error_text(error: Exception) -> str:
    if isinstance(error, _NoVerdictError):
        return str(error)
    return f"{type(error).__name__}: {str(error)[:300]}"


_SECONDS = 2.0
"""Limit for the launches of a size; what is cut short is a sample of its programs."""
_FEW = 1 << 20
"""Elements below which the time of a reference says nothing of more elements."""
_FAR = 0.05
"""Error, relative to an output and to their root mean square, that no rounding explains."""


def check_alone(
    problem: str,
    kernel: str,
    params: Mapping[str, Value],
    shape: Mapping[str, Value],
    within_s: float = math.inf,
) -> tuple[str, str]:
    """Run a candidate at a few sizes.

    Args:
        problem: path of the file with the problem.
        kernel: path of the candidate's file.
        params: of the candidate.
        shape: of the problem.
        within_s: seconds; sizes that would take longer by what the first ones took are left out.

    Returns:
        ``"right"``, ``"wrong"`` or ``"unchecked"``, and the reason.
    """
    start = time.monotonic()
    _arrange_process()
    loaded = _load_file(kernel, problem if problem != kernel else None)
    held_out = loaded.description.problem.held_out_shapes
    wrong, lacking, agreed, skipped = "", "", 0, 0
    pace_s = 0.0  # of the slowest elements so far
    for sized in even_sizes(loaded.full_shape(shape), held_out):
        elements = math.prod(size_values(sized.shape).values())
        if time.monotonic() - start + pace_s * elements > within_s:
            skipped += 1
            continue
        trial = _AloneTrial(loaded, params, sized)
        try:
            difference = trial.difference()
        except Exception as error:  # user code in an interpreter that lacks some operations
            lacking = lacking or f"{sized.describe()}: {_error_text(error)}"
            continue
        finally:
            pace_s = max(pace_s, trial.references_s / max(elements, _FEW))
        if difference:
            wrong = wrong or f"{sized.describe()}: {difference}"
        else:
            agreed += 1
    slow = f"; {skipped} more would take over {within_s:.0f} s" if skipped else ""
    if agreed:
        sizes = f"{agreed} size{'s' if agreed > 1 else ''}"
        return "right", f"it agrees with the reference at {sizes}{slow}"
    if wrong and not skipped:  # a kernel may need a size as it is
        return "wrong", wrong
    return "unchecked", (wrong or lacking or "there is no size to try") + slow


@dataclass
class _AloneTrial:
    """A candidate at one size.

    Attributes:
        loaded: its file.
        params: of the candidate.
        sized: the size.
        references_s: seconds that inputs and references took, which a larger size has more of; a
            launch has a limit.
    """

    loaded: LoadedKernel
    params: Mapping[str, Value]
    sized: TrialSize
    references_s: float = 0.0

    def difference(self) -> str:
        """Return what is wrong, with inputs in fp32, or as they are if the candidate needs that."""
        try:
            return self._compare(narrow=False)
        except _NoVerdictError:
            raise
        except Exception:
            return self._compare(narrow=True)

    def _compare(self, narrow: bool) -> str:
        workload = _cpu_workload(self.loaded, self.params, self.sized, narrow)
        if workload.check is not None:
            self._heed_own_check()
            return ""
        want = [out.detach() for out in _reference_in(workload, torch.float64, 0)]
        start = time.monotonic()  # the first call has loaded what every call needs
        again = _cpu_workload(self.loaded, self.params, self.sized, narrow)
        repeated = _reference_in(again, torch.float64, 1)
        self.references_s += 3 * (time.monotonic() - start)
        if any(_differs_inexactly(a.detach(), b) for a, b in zip(repeated, want)):
            raise _NoVerdictError("the reference draws random numbers")
        workload = _cpu_workload(self.loaded, self.params, self.sized, narrow)
        outputs, seen = _run_any(workload)
        if len(outputs) != len(want):
            return f"{len(outputs)} outputs; the reference has {len(want)}"
        rtol = 0.0 if workload.tolerance is None else workload.tolerance.rtol
        for index, (got, true) in enumerate(zip(outputs, want, strict=True)):
            if got.shape != true.shape:
                return f"output {index} has shape {tuple(got.shape)}, expected {tuple(true.shape)}"
            part = torch.ones(got.shape, dtype=torch.bool) if seen is None else seen[index]
            if bool((_broken_elements(got, true) & part).any()):
                return (
                    f"output {index} has other elements that are not numbers, or were never written"
                )
            error = _relative_error(got, true, part)
            if error > max(_FAR, 4 * rtol):
                return f"output {index} is off by {error:.2g} of its size"
        return ""

    def _heed_own_check(self) -> None:
        """Compare by the file's own ``check``, which knows its dtypes and its usual size alone.

        Raises:
            _NoVerdictError: it rejects the outputs at this size, or not all of them are there.
        """
        workload = _cpu_workload(self.loaded, self.params, self.sized, narrow=True)
        with SeemingGpu():
            want = [_detach_output(out) for out in workload.run_reference()]
        workload = _cpu_workload(self.loaded, self.params, self.sized, narrow=True)
        outputs, seen = _run_any(workload)
        if seen is not None:
            raise _NoVerdictError("its launches take too long for the file's own check()")
        errors = Standard(want, workload.tolerance, None, workload.check).judge(outputs).errors
        if errors:
            raise _NoVerdictError(f"{'; '.join(errors)}, which was written for another size")


def _run_any(workload: object) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
    """Return the candidate's outputs and which elements count; no Triton launch is needed."""
    ran = _run_kernel(workload, _SECONDS, must_launch=False)  # type: ignore[arg-type]
    return ran.outputs, ran.seen


def _differs_inexactly(got: torch.Tensor, want: torch.Tensor) -> bool:
    return is_inexact(want) and bool((got - want).abs().max() > 0) if want.numel() else False
