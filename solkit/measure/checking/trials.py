"""The inputs for checking a candidate: several seeds, distributions and shapes."""

from __future__ import annotations

import contextlib
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from solkit.core import Tolerance, Value
from solkit.core.quantities import settings_text
from solkit.errors import MemoryLimitError, UnsupportedError
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.choices import outputs_as_chosen
from solkit.measure.checking.chunked_tensors import count_elements, flat_elements, part_slices
from solkit.measure.checking.distributions import (
    DISTRIBUTIONS,
    MIXED,
    NEAR,
    ZEROS,
    Distribution,
    spreads_not,
    widen_fp8,
)
from solkit.measure.checking.exact import (
    Exact,
    TooLargeError,
    TooSlowError,
    exact_reference,
    is_inexact,
    nearby_outputs,
)
from solkit.measure.checking.faults import ALL_DISTRIBUTIONS, ContextLostError
from solkit.measure.checking.inputs import (
    copy_workload,
    distinct_elements,
    mark_inputs,
)
from solkit.measure.checking.tolerance import (
    Standard,
    Ties,
    compare_outputs,
    is_explained,
    root_mean_square,
)

_USUAL = "inputs()"
_SEEDS = 2
_UNSOUND = 0.1
_CHANCE_SIGMAS = 6.0  # how far above chance zeros must agree to be a structure


@dataclass(frozen=True)
class Trial:
    """One set of inputs, and the correct outputs for it."""

    name: str  # how the inputs were made, e.g. ``"inputs()"``, ``"large"``, ``"held-out M=100"``
    # passed to `solkit.kernelfiles.seeding.seed_everything` before making the inputs and before
    # running the reference; pass the same before the candidate runs
    seed: int
    workload: Workload  # the inputs, still unmodified
    want: list[torch.Tensor]  # the reference's outputs
    # the same in wide arithmetic; ``None`` if the reference does not run in it
    exact: list[Exact] | None
    notes: tuple[str, ...] = ()  # why `exact` is ``None``
    # the sizes that differ from the file's defaults
    shape: Mapping[str, Value] = field(default_factory=dict)
    # whether `exact` is ``None`` for want of memory, which may be there the next time
    is_short: bool = False
    # root mean square of each output on the file's own inputs; ``None`` if these are they
    usual_levels: tuple[float, ...] | None = None
    # of the inputs, if these had to leave memory; else ``None``
    inputs_marks: tuple[object, ...] | None = None
    _standards: dict[Tolerance | None, Standard] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def standard(self, tolerance: Tolerance | None) -> Standard:
        """Return the standard for outputs, with a tolerance for floating ones."""
        if tolerance not in self._standards:
            leaves = self.workload.tensors()
            self._standards[tolerance] = Standard(
                *(self.want, tolerance, self.exact, self.workload.check),
                scale=_largest_size(leaves),
                sums_coarsely=any(map(_is_fp8, leaves)),
                usual_levels=self.usual_levels,
                ties=Ties(self._nearby_outputs(), self._outputs_as_chosen(tolerance)),
            )
        return self._standards[tolerance]

    def _nearby_outputs(self) -> Callable[[int], list[torch.Tensor]] | None:
        """Return what gives the outputs on further nearby inputs; ``None`` if there are none.

        It does not hold the trial, which holds the standard: memory of both is freed at once.
        """
        kept = bool(self.exact) and self.inputs_marks is None
        if not kept or not any(map(is_inexact, self.workload.tensors())):
            return None
        dtypes = {out.value.dtype for out in self.exact or ()}
        is_fp32 = bool(dtypes & {torch.float32, torch.complex64})
        wide = torch.float32 if is_fp32 else torch.float64
        return partial(nearby_outputs, self.workload, self.seed, wide)

    def _outputs_as_chosen(
        self, tolerance: Tolerance | None
    ) -> Callable[[torch.Tensor], list[torch.Tensor]] | None:
        """Return what gives the outputs that follow from given places; ``None`` without inputs."""
        if self.inputs_marks is not None:
            return None
        return partial(outputs_as_chosen, self.workload, self.seed, tolerance)

    @property
    def is_usual(self) -> bool:
        """True if the inputs are the file's own, at the measured shape."""
        return self.name.startswith(_USUAL)

    @property
    def nonfinite_count(self) -> int:
        """Number of elements of its correct outputs that are infinite or NaN."""
        return sum(
            count_elements(out, lambda part: ~widen_fp8(part).isfinite()) for out in self.want
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of the trial's tensors."""
        inputs = self.workload.tensors()
        return self.outputs_bytes + sum(part.numel() * part.element_size() for part in inputs)

    @property
    def outputs_bytes(self) -> int:
        """Bytes of the correct outputs, in wide arithmetic too."""
        exact = [part for out in self.exact or () for part in (out.value, out.sensitivity)]
        tensors = (*self.want, *exact)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def without_inputs(self) -> Trial:
        """Return the trial with marks instead of its inputs."""
        if self.inputs_marks is not None:
            return self
        marks = mark_inputs(self.workload)
        return replace(self, workload=self.workload.with_inputs((), {}), inputs_marks=marks)

    def with_inputs(self, workload: Workload) -> Trial | None:
        """Return the trial with its inputs, made once more; ``None`` if these differ."""
        if mark_inputs(workload) != self.inputs_marks:
            return None
        return replace(self, workload=workload, inputs_marks=None)


@dataclass(frozen=True)
class Trials:
    """Makes trials one at a time, from several seeds, shapes and distributions.

    Distributions replace only floating tensors of more than one element; integers, scalars and
    modules' weights stay. So do structures that both of the file's own inputs have (zeros in the
    same places, symmetric matrices), on which a kernel may rely. A distribution is left out if the
    reference does not allow it:

    - the reference raises (if that breaks the CUDA context, another process must skip that trial:
      `ContextLostError`), or gives infinities or NaN that it did not give for ``inputs()``;
    - its rounding decides its outputs (a softmax of huge products that are kept in bf16);
    - with infinities among the inputs, it gives NaN, or a larger share of infinities than it got;
    - with subnormal inputs, it gives other outputs than with zeros, to which GPUs may flush them.

    What `make` or the reference raises on the file's own inputs is passed on.

    Attributes:
        make: the workload of a shape, as `LoadedKernel.workload` gives it, with inputs drawn from
            the global generators, which are seeded before each call.
        seed: of the first trial; each trial has its own, except a twin of the first.
        shape: the measured shape; overrides the file's defaults.
        skip: names of trials to leave out, e.g. those that break the reference's context.
        wide_limit_s: seconds that wide arithmetic may take for one trial; without it the file's
            tolerance, or the dtype's, decides.
        free_bytes: memory that is free. A trial that needs more goes without wide arithmetic, and
            the file's tolerance, or the dtype's, decides.
    """

    make: Callable[[Mapping[str, Value]], Workload]
    seed: int
    shape: Mapping[str, Value] = field(default_factory=dict)
    skip: Collection[str] = ()
    wide_limit_s: Callable[[], float] = lambda: math.inf
    free_bytes: Callable[[], float] = lambda: math.inf
    left_out: list[str] = field(default_factory=list)  # held-out trials that do not fit into memory
    _structures: list[_Structure] = field(default_factory=list, repr=False)
    _too_slow: list[str] = field(default_factory=list, repr=False)  # why no other is tried
    _levels: list[float] = field(default_factory=list, repr=False)  # of the first trial's outputs

    def own_trials(self) -> Iterator[Trial]:
        """Yield a candidate's private trials: ``inputs()`` with two seeds, twins of the first."""
        usual = 0
        for place in range(_SEEDS):
            name = f"{_USUAL}, seed {place}" if place else _USUAL
            if name not in self.skip:
                trial = self._make_trial(name, self.seed + place, self.shape)
                usual = max(usual, trial.nonfinite_count)
                self._note_structures(trial.workload)
                self._levels[:] = [root_mean_square(widen_fp8(output)) for output in trial.want]
                yield trial
                del trial  # it would stay in memory while the next one is made
        for twin in (distribution for distribution in DISTRIBUTIONS if distribution.is_twin):
            yield from self._distributed(twin, self.seed, usual)

    def common_trials(
        self, held_out: Sequence[Mapping[str, Value]], usual: int, after: str = ""
    ) -> Iterator[Trial]:
        """Yield the trials that candidates may share and are never timed on.

        Args:
            held_out: shapes that the file holds out; they come before `DISTRIBUTIONS`.
            usual: number of output elements that may be infinite or NaN, as for ``inputs()``.
            after: name of the last one that is there already; empty for none.
        """
        shapes = [f"held-out {settings_text(sizes)}" for sizes in held_out]
        others = [distribution for distribution in DISTRIBUTIONS if not distribution.is_twin]
        order = [*shapes, *(distribution.name for distribution in others)]
        begin = order.index(after) + 1 if after else 0
        for place, (name, sizes) in enumerate(zip(shapes, held_out, strict=True)):
            if place >= begin and name not in self.skip:
                yield from self._held_out_trial(name, self.seed + _SEEDS + place, sizes)
        for place, distribution in enumerate(others, start=len(shapes)):
            if place >= begin:
                yield from self._distributed(distribution, self.seed + _SEEDS + place, usual)

    def _held_out_trial(self, name: str, seed: int, sizes: Mapping[str, Value]) -> Iterator[Trial]:
        """Yield the trial at a held-out shape, if it fits into memory."""
        try:
            inputs = self._make_inputs(seed, sizes)
        except MemoryLimitError:  # that says nothing about a candidate
            self.left_out.append(name)
            return
        yield self._run_reference(name, seed, inputs, sizes)

    def _note_structures(self, workload: Workload) -> None:
        """Note what these inputs have in common with earlier ones, tensor by tensor."""
        structures = [_Structure.from_tensor(leaf) for leaf in workload.tensors()]
        noted = self._structures
        if len(noted) == len(structures):
            structures = [a.shared_with(b) for a, b in zip(noted, structures, strict=True)]
        noted[:] = structures

    def _make_inputs(self, seed: int, shape: Mapping[str, Value]) -> Workload:
        seed_everything(seed)
        return self.make(shape)

    def trial_on(self, name: str, seed: int, workload: Workload) -> Trial:
        """Return the trial on inputs whose call has ended; the seed is that of the runs."""
        return self._run_reference(name, seed, workload, self.shape, is_over=True)

    def redraw_inputs(self, seed: int) -> Workload:
        """Return the inputs of a trial of ``inputs()`` once more."""
        return self._make_inputs(seed, self.shape)

    def remake_inputs(self, trial: Trial) -> Workload:
        """Return the inputs of a trial that candidates share once more."""
        workload = self._make_inputs(trial.seed, trial.shape)
        for distribution in DISTRIBUTIONS:
            if distribution.name == trial.name:
                _fill_inputs(workload, distribution, self._structures)
        return workload

    def mix_values(self, workload: Workload, seed: int) -> Workload:
        """Return a copy of a workload whose floating values moved within their tensors.

        Structures that both of the file's own inputs have stay, as in the "swapped values" trial.
        """
        moved = copy_workload(workload)
        seed_everything(seed)
        _fill_inputs(moved, MIXED, self._structures)
        return moved

    def _make_trial(self, name: str, seed: int, shape: Mapping[str, Value]) -> Trial:
        return self._run_reference(name, seed, self._make_inputs(seed, shape), shape)

    def _run_reference(
        self,
        name: str,
        seed: int,
        workload: Workload,
        shape: Mapping[str, Value],
        is_over: bool = False,
    ) -> Trial:
        want = _reference_outputs(workload, seed)
        _synchronize()  # device assertions are reported late: this one is the reference's
        return self._with_exact(Trial(name, seed, workload, want, None, (), shape), is_over)

    def _with_exact(self, trial: Trial, is_over: bool = False) -> Trial:
        """Return the trial with its outputs in wide arithmetic, if the reference runs in it.

        `is_over`: whether the candidate has run on it, and needs no more memory.
        """
        wide = f"{trial.name}, in wide arithmetic"
        if self._too_slow:
            return replace(trial, notes=tuple(self._too_slow))
        if (needed := _needed_bytes(trial, is_over)) > self.free_bytes():
            why = f"the reference in wide arithmetic needs {needed / 1e9:.1f} GB of memory"
            return replace(trial, notes=(why,), is_short=True)
        if wide in self.skip:  # its perturbed inputs are beyond what the reference allows
            why = "the reference does not run in wide arithmetic: it breaks CUDA's context"
            return replace(trial, notes=(why,))
        try:
            with naming_trial(wide):
                exact = exact_reference(trial.workload, trial.seed, self.wide_limit_s())
                return replace(trial, exact=exact)
        except UnsupportedError as error:
            self._too_slow.extend([str(error)] if isinstance(error, TooSlowError) else ())
            is_short = isinstance(error, TooLargeError)
            return replace(trial, notes=(str(error),), is_short=is_short)

    def _distributed(self, distribution: Distribution, seed: int, usual: int) -> Iterator[Trial]:
        """Yield the trial on that distribution, if the reference allows it."""
        name = distribution.name
        if name in self.skip or ALL_DISTRIBUTIONS in self.skip:
            return
        workload = self._make_inputs(seed, self.shape)
        if not _fill_inputs(workload, distribution, self._structures):
            return
        try:
            with naming_trial(name):
                want = _reference_outputs(workload, seed)
        except ContextLostError:
            raise
        except Exception:  # it is not made for such values, which is not an error
            return
        levels = tuple(self._levels) if len(self._levels) == len(want) else None
        trial = Trial(name, seed, workload, want, None, (), self.shape, usual_levels=levels)
        if spreads_not(want) if distribution.infinite else trial.nonfinite_count <= usual:
            trial = self._with_exact(trial)
            with naming_trial(name):
                sound = _inputs_decide(trial)
            if sound and not (distribution.subnormal and not _may_be_flushed(trial)):
                yield trial


def _needed_bytes(trial: Trial, is_over: bool) -> float:
    """Memory that wide arithmetic takes on a trial's inputs, and what follows it takes beside it.

    In fp64: while it runs, the inputs beside two and a half outputs
    (`solkit.measure.checking.exact`), of which one and a half stay. Beside these, inputs as they
    are are shared with a candidate, which takes outputs four times: its own, as much for its work,
    those that it passes on, and those that are judged.
    """
    leaves = trial.workload.tensors()
    inputs, outputs = (8 * sum(tensor.numel() for tensor in part) for part in (leaves, trial.want))
    runs = inputs + 2.5 * outputs
    shared, got = (
        sum(tensor.numel() * tensor.element_size() for tensor in part)
        for part in (leaves, trial.want)
    )
    return runs if is_over else max(runs, 1.5 * outputs + shared + 4 * got)


def _reference_outputs(workload: Workload, seed: int) -> list[torch.Tensor]:
    own = copy_workload(workload)
    seed_everything(seed)
    return own.run_reference()


@contextlib.contextmanager
def naming_trial(trial: str) -> Iterator[None]:
    """Raise `ContextLostError` with that name if the block breaks the context."""
    try:
        yield
        _synchronize()  # device assertions are reported late
    except Exception as error:
        if context_is_lost():
            raise ContextLostError(trial) from error
        raise


def _synchronize() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def context_is_lost() -> bool:
    """Tell whether this process can use its GPU no more, as after a device assertion."""
    try:
        _synchronize()
    except RuntimeError:
        return True
    return False


def _inputs_decide(trial: Trial) -> bool:
    """Tell whether these inputs, rather than the reference's rounding, decide its outputs.

    Without wide outputs: whether moving the inputs by at most a roundoff changes the outputs by
    less than a tenth, in the Euclidean norm.
    """
    if trial.exact is not None:
        return is_explained(trial.want, trial.exact)
    near = copy_workload(trial.workload)
    _fill_inputs(near, NEAR)
    pairs = zip(_reference_outputs(near, trial.seed), trial.want, strict=True)
    return all(_relative_distance(moved, want) <= _UNSOUND for moved, want in pairs)


def _relative_distance(output: torch.Tensor, want: torch.Tensor) -> float:
    """Return the relative distance over the elements that are finite in both."""
    size = moved = 0.0
    pair = flat_elements(output), flat_elements(want)
    for part in part_slices(pair[1].numel()):
        a, b = (widen_fp8(values[part]).nan_to_num(0.0, 0.0, 0.0).float() for values in pair)
        size, moved = math.hypot(size, float(b.norm())), math.hypot(moved, float((a - b).norm()))
    return moved / size if size else 0.0


def _fill_inputs(
    workload: Workload, distribution: Distribution, structures: Sequence[_Structure] = ()
) -> bool:
    """Write a distribution's values into a workload's inputs; returns whether any fit."""
    seen: set[tuple[int, torch.Size]] = set()
    leaves = workload.tensors()
    imposed = structures if len(structures) == len(leaves) else [None] * len(leaves)
    for leaf, structure in zip(leaves, imposed, strict=True):
        if not (leaf.is_floating_point() and leaf.layout is torch.strided and leaf.numel() > 1):
            continue
        key = leaf.data_ptr(), leaf.shape
        if key not in seen and not (seen and distribution.first_only):
            seen.add(key)
            _write_values(leaf, distribution, structure)
    return bool(seen)


def _largest_size(leaves: Sequence[torch.Tensor]) -> float:
    """Return the largest finite number among floating tensors."""
    plain = [
        flat_elements(distinct_elements(leaf.detach()))
        for leaf in leaves
        if leaf.is_floating_point() and leaf.layout is torch.strided and leaf.numel()
    ]
    parts = (widen_fp8(leaf[part]) for leaf in plain for part in part_slices(leaf.numel()))
    return max(map(_largest_of_part, parts), default=0.0)


def _largest_of_part(values: torch.Tensor) -> float:
    if not values.is_complex():
        low, high = (float(end) for end in values.aminmax())
        if math.isfinite(low) and math.isfinite(high):  # most are: one pass, no copy
            return max(-low, high)
    return float(values.abs().nan_to_num_(0.0, 0.0, 0.0).max())


@dataclass(frozen=True)
class _Structure:
    """Properties of a tensor in every draw of the inputs."""

    zeros: torch.Tensor | None = None  # where it is zero; ``None`` if nowhere or everywhere
    mirrored: bool = False  # whether its last two dimensions hold symmetric matrices
    # dimensions, the first or the last, along which it is sorted; whether in descending order
    sorted_along: frozenset[tuple[int, bool]] = frozenset()

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> _Structure:
        """Return the structure of one draw."""
        if not tensor.is_floating_point() or tensor.layout is not torch.strided:
            return cls()
        plain = widen_fp8(distinct_elements(tensor.detach()))
        zeros = plain == 0
        square = plain.dim() > 1 and plain.shape[-1] == plain.shape[-2] > 1
        some = bool(zeros.any()) and not bool(zeros.all())
        mirrored = square and torch.equal(plain, plain.mT)
        return cls(zeros if some else None, mirrored, _sorted_dimensions(plain))

    def shared_with(self, other: _Structure) -> _Structure:
        """Return what both have: zeros in the same places, unless as few agree as by chance."""
        zeros = None
        if self.zeros is not None and other.zeros is not None:
            both = self.zeros & other.zeros
            a, b = (_count_true(places) / places.numel() for places in (self.zeros, other.zeros))
            # if the places were independent: the moments of the hypergeometric distribution
            by_chance = a * b * both.numel()
            sigma = math.sqrt(by_chance * (1 - a) * (1 - b))
            if _count_true(both) > by_chance + _CHANCE_SIGMAS * sigma + 1:
                zeros = both
        orders = self.sorted_along & other.sorted_along
        return _Structure(zeros, self.mirrored and other.mirrored, orders)

    def imposed_on(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values with this structure; they are overwritten where that is enough."""
        if self.mirrored:
            values = values.triu() + values.triu(1).mT
        for dim, descending in sorted(self.sorted_along):  # the first keeps its order in the last
            values = values.sort(dim, descending=descending).values
        return values if self.zeros is None else values.masked_fill_(self.zeros, 0.0)


def _count_true(truths: torch.Tensor) -> int:
    return count_elements(truths, lambda part: part)


def _sorted_dimensions(values: torch.Tensor) -> frozenset[tuple[int, bool]]:
    """Return dimensions along which values never fall, or never rise, but for constant ones."""
    orders = set()
    for dim in {0, values.dim() - 1} if values.dim() else set():
        size = values.shape[dim] - 1
        if size > 0:
            before, after = values.narrow(dim, 0, size), values.narrow(dim, 1, size)
            rises, falls = bool((before <= after).all()), bool((before >= after).all())
            orders |= {(dim, falls)} if rises is not falls else set()
    return frozenset(orders)


def _write_values(
    leaf: torch.Tensor, distribution: Distribution, structure: _Structure | None = None
) -> None:
    plain = distinct_elements(leaf.detach())
    wide = plain.to(torch.float64 if plain.dtype is torch.float64 else torch.float32)
    values = distribution.values(wide, plain.dtype)
    if structure is not None and values.shape == plain.shape:
        values = structure.imposed_on(values)
    limit = torch.finfo(plain.dtype).max
    if limit < torch.finfo(values.dtype).max:  # large tensors are copied no more than they must be
        values = torch.where(values.isfinite(), values.clamp(-limit, limit), values)
    plain.copy_(values)


def _is_fp8(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() == 1


def _may_be_flushed(trial: Trial) -> bool:
    """Tell whether zeros instead of the inputs give the same outputs, by the rule of `compare`."""
    zeros = copy_workload(trial.workload)
    _fill_inputs(zeros, ZEROS)
    flushed = _reference_outputs(zeros, trial.seed)
    return not compare_outputs(flushed, trial.want, None, trial.exact).errors


# -------------------------------------- Trials that the referee reuses from candidate to candidate


_MOST_BYTES = 1 << 30
_MEMORY_SHARE = 1 / 8
_ENOUGH = 3
"""Trials that are kept from which on a candidate without much time goes without the others."""


def cache_bytes(memory_bytes: float) -> float:
    """Return bytes of trials to keep where there is so much memory: a share that nobody misses.

    The correct outputs of a problem with outputs of 268 MB in fp32 take 12 GB, and over a second
    for each candidate if they are not kept.
    """
    return (
        max(_MOST_BYTES, _MEMORY_SHARE * memory_bytes)
        if math.isfinite(memory_bytes)
        else _MOST_BYTES
    )


@dataclass(frozen=True)
class _Kept:
    """The first trials of a problem.

    Attributes:
        trials: in their order.
        size: bytes of their tensors.
        is_whole: whether there are no others.
        is_full: whether there is no room for the next one.
    """

    trials: tuple[Trial, ...]
    size: int
    is_whole: bool = False
    is_full: bool = False

    @property
    def has_enough(self) -> bool:
        """True if a candidate without much time goes by these alone."""
        return self.is_full and len(self.trials) >= _ENOUGH


class TrialCache:
    """The trials of the most recently used problems, up to `most_bytes` of tensors in all.

    Each is kept as soon as it is made: a candidate that has no time for all leaves the others less
    to do. Of a problem that needs more memory, only the correct outputs are kept, which cost most,
    and its inputs are made once more. Where even these need more, the first that fit are kept, up
    to one that lacks what memory was short for.
    """

    def __init__(self, most_bytes: float = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def cached_trials(
        self,
        key: Hashable,
        make: Callable[[str], Iterator[Trial]],
        remake_inputs: Callable[[Trial], Workload],
        is_hasty: bool = False,
    ) -> Iterator[Trial]:
        """Yield the trials of a key, in their order; what is not kept is made one at a time.

        Args:
            key: holds everything that the trials depend on.
            make: makes those after the one of a name; of an empty name, all.
            remake_inputs: makes the inputs of one that was kept without them.
            is_hasty: whether to leave out those for which there is no room, which each candidate
                would make again, if some are kept.
        """
        yielded: set[str] = set()
        kept = self._kept.get(key, _Kept((), 0))
        for trial in kept.trials:
            self._kept.move_to_end(key)
            whole = (
                trial.with_inputs(remake_inputs(trial)) if trial.inputs_marks is not None else trial
            )
            if whole is None:  # the seed gives other inputs than before
                kept = _Kept((), 0)
                self._kept.pop(key, None)
                break
            yielded.add(trial.name)
            yield whole
            del whole  # while the next one is made, memory may be short
        if kept.is_whole or (is_hasty and kept.has_enough):
            return
        for trial in self._made_trials(key, make, kept.trials):
            if trial.name not in yielded:
                yield trial
            del trial

    def leaves_out(self, key: Hashable) -> bool:
        """Tell whether there are further trials for which there is no room."""
        return key in self._kept and self._kept[key].has_enough

    def _made_trials(
        self, key: Hashable, make: Callable[[str], Iterator[Trial]], first: tuple[Trial, ...]
    ) -> Iterator[Trial]:
        """Make the trials after the first one at a time, and keep as many as there is room for."""
        taken, has_room = first, True
        for trial in make(first[-1].name if first else ""):
            if has_room and not trial.is_short and self._keep(key, (*taken, trial)):
                taken = self._kept[key].trials
            elif has_room:
                has_room = False
                if taken and not trial.is_short:
                    self._kept[key] = replace(self._kept[key], is_full=True)
            yield trial
            del trial  # while the next one is made, memory may be short
        if has_room and taken:
            self._kept[key] = replace(self._kept[key], is_whole=True)

    def _keep(self, key: Hashable, trials: tuple[Trial, ...]) -> bool:
        """Keep trials, if need be without their inputs; false if there is no room for them."""
        size = sum(trial.size_bytes for trial in trials)
        if size > self._most_bytes or any(trial.inputs_marks is not None for trial in trials):
            size = sum(trial.outputs_bytes for trial in trials)
            if size > self._most_bytes:
                return False
            trials = tuple(trial.without_inputs() for trial in trials)
        self._kept[key] = _Kept(trials, size)
        self._kept.move_to_end(key)
        while sum(kept.size for kept in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)
        return True
