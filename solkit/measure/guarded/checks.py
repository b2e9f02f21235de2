"""Whether a candidate is correct: its outputs on many inputs, what it writes, how it works.

The referee imports only the problem (and the candidate if both are in one file). It talks to the
candidate's process through `solkit.measure.guarded.remote`.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from solkit.core import Needed, Value, Verdict
from solkit.errors import KernelFileError, SolkitError, UnsupportedError
from solkit.kernelfiles import LoadedKernel, Workload, load
from solkit.kernelfiles.rounding import round_to_tf32
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.faults import (
    ALL_DISTRIBUTIONS,
    CandidateError,
    ContextLostError,
    explain,
    verdict_of,
)
from solkit.measure.checking.inputs import (
    bound_workload,
    drawn_workload,
    fresh,
    is_unchanged,
    same_bits,
    tensors_of,
)
from solkit.measure.checking.redrawing import are_free, draws_for, vary
from solkit.measure.checking.trial_cache import TrialCache
from solkit.measure.checking.trials import DISTRIBUTIONS, Trial, Trials
from solkit.measure.distrust.delegation import by_kernels, by_operators
from solkit.measure.distrust.findings import Finding
from solkit.measure.distrust.suspicion import suspicions
from solkit.measure.guarded import evidence
from solkit.measure.guarded.messages import Request
from solkit.measure.guarded.redraws import Drawn, Redraws, Shared, secret
from solkit.measure.guarded.remote import Form, Look, Remote, Say
from solkit.measure.guarded.sharing import Block, Packed, allocate, offsets_of, pack
from solkit.measure.sensitivity.needed import LIMIT_S
from solkit.measure.timing.machine import Machine

__all__ = ["Checks", "Setup", "Shared"]

_MOST_TIMED_BYTES = 1 << 30  # of inputs and outputs: above it timed calls share one set
_TRIALS_SHARE = 0.4  # of the time limit: then no further distribution is tried
_WIDE_SHARE = 0.15  # of the time that is left: for one trial in wide arithmetic
_JUDGING_SHARE = 0.5  # of the time that is left: for judging timed calls
_MOST_IDLE_BYTES = 1 << 30  # that this process's allocator may keep to itself
_OUTPUT_SLACK_BYTES = 64 << 20
_MOST_KEPT_BYTES = 1 << 30  # of inputs and outputs of calls that are judged later
_TIMED = "a timed call"
_TWINS = frozenset(each.name for each in DISTRIBUTIONS if each.is_twin)


@dataclass(frozen=True)
class Setup:
    """What the referee provides for the examination of candidates."""

    machine: Machine  # runs the reference
    say: Say  # receives the current step
    # closes shared memory, once the candidates' processes have released it
    blocks: contextlib.ExitStack
    # trials that earlier candidates had in common with these
    cache: TrialCache = field(default_factory=TrialCache)


@dataclass(frozen=True)
class _Effects:
    """What a reference does besides computing its outputs."""

    # numbers of the inputs' storages that it writes to, or declares as written
    written: frozenset[int]
    aliases: bool  # whether its outputs lie in its inputs
    reference_s: float  # its wall-clock time


@dataclass(frozen=True)
class _Taken:
    """What is known of a call once it has ended, but whether its outputs are correct."""

    which: str  # call
    got: list[torch.Tensor]  # in the referee's memory
    misplaced: tuple[str, ...]  # outputs that lie in inputs
    changed: tuple[str, ...]  # inputs that were written into


class Checks:
    """Checks one candidate, in its process; raises `CandidateError` if it fails."""

    def __init__(self, request: Request, remote: Remote, setup: Setup) -> None:
        self._request, self._remote, self._setup = request, remote, setup
        self._device = setup.machine.device
        self._results: Block | None = None
        self._bound_to: dict[str, Value] | None = None
        self._known_effects: _Effects | None = None
        self._trials: Trials | None = None
        self._swapped = False  # whether it was checked on inputs with swapped values
        self._vary = self._are_free = False  # see `solkit.measure.checking.redrawing`
        self._kept: list[tuple[Shared, _Taken]] = []  # calls to judge
        self._usual_bytes = 0  # of the outputs
        self.max_error = 0.0  # largest deviation from the reference so far
        self.is_degenerate = False  # whether different inputs gave the same outputs
        self.calls = 1  # of the candidate before timing, including one that records launches
        self.notes: dict[str, None] = {}  # remarks on the candidate: an ordered set

    def checked(self) -> list[Shared]:
        """Check the candidate and bind it to the timed shape; gives the inputs to time it on."""
        self._setup.say("loading the problem")
        self._problem = _problem(self._request)
        tf32 = self._problem.description.problem.allows_tf32
        round_to_tf32(tf32)
        self._remote.load(self._request.path, self._request.reference, self._device, tf32=tf32)
        self._read_source()
        sets = self._check()
        self._usual_bytes = _bytes_of(sets[-1].trial.want)
        self._bind(self._request.shape)
        self._check_operators(sets[-1])
        return sets

    def exchange(self, own: Sequence[Shared], others: Sequence[Shared]) -> None:
        """Replace the candidate's inputs by those of another examination."""
        for shared in own:
            self._remote.detach(shared.trial.name)
        for shared in others:
            self._remote.attach(shared.trial.name, shared.packed, shared.block)

    def redraws(self, sets: Sequence[Shared], remotes: Sequence[Remote]) -> Redraws:
        """The inputs of timed calls, shared with these candidates as `sets`."""
        self._setup.say("drawing inputs")
        usual, shape = sets[-1].trial.workload, self._request.shape
        trials = self._trials
        assert trials is not None

        def draw(seed: int) -> Workload:
            seed_everything(seed)
            return drawn_workload(self._problem, usual, shape, self._device)

        def mix(seed: int) -> Workload:
            return trials.mixed(usual, seed)

        with self._blaming_the_problem():
            draws = draws_for(
                usual,
                draw,
                mix if self._swapped and self._are_free else None,
                self._vary,
                lambda: secret.getrandbits(62),
                self._setup.machine.synchronize,
            )

        def packed(workload: Workload) -> Packed:
            return _packed(workload, self._device)

        def allocated(size: int) -> Block:
            return self._allocate(size, self._setup.blocks)

        return Redraws(sets, draws, remotes, packed, allocated)

    def trial_of(self, redraws: Redraws, drawn: Drawn) -> Trial:
        """The inputs of a turn once more, with correct outputs."""
        assert self._trials is not None
        with self._blaming_the_problem():
            return self._trials.on(_TIMED, drawn.seed, redraws.workload(drawn))

    def needed(self, trials: Sequence[Trial]) -> Needed | None:
        """What the timed inputs make compulsory; ``None`` if there is no time to measure it."""
        if evidence.STAGE in self._request.skip or not trials:
            return None
        self._setup.say(evidence.STAGE)
        return evidence.needed_on(
            trials,
            lambda: self._make(self._request.shape),
            self._problem.description.problem.tolerance,
            min(LIMIT_S, self._remote.left_s),
        )

    @property
    def reference_s(self) -> float:
        """The reference's wall-clock time."""
        return self._effects.reference_s

    def _check(self) -> list[Shared]:
        """Run the candidate on all trials; gives those from ``inputs()`` that it is timed on."""
        usual: list[tuple[Shared, contextlib.ExitStack]] = []
        if ALL_DISTRIBUTIONS in self._request.skip:
            self.notes[f"Not checked on {ALL_DISTRIBUTIONS}: no time for all."] = None
        deadline = time.monotonic() + _TRIALS_SHARE * self._request.time_limit_s
        for trial in self._all_trials():
            if time.monotonic() > deadline and not trial.is_usual:
                self.notes[f"Not checked on {trial.name} and what follows: no time."] = None
                break
            if trial.is_short:
                self.notes[f"Tolerances alone decide: {trial.notes[0]}."] = None
            self._bind(trial.shape)
            blocks = self._setup.blocks.enter_context(contextlib.ExitStack())
            shared = self._share(trial, blocks)
            self._check_on(shared)
            self._swapped |= trial.name in _TWINS
            if trial.is_usual:
                usual.append((shared, blocks))
                if len(usual) == 2:
                    self._compare(*(each for each, _ in usual))
                    if sum(_size(each) for each, _ in usual) > _MOST_TIMED_BYTES:
                        self._drop(*usual.pop(0))
            else:
                self._drop(shared, blocks)
            del trial, shared, blocks  # they would stay in memory while the next trial is made
        return [each for each, _ in usual]

    def _compare(self, one: Shared, other: Shared) -> None:
        """What two draws of the inputs have in common."""
        self.is_degenerate = _is_degenerate([one.trial, other.trial])
        drawn = [one.trial.workload, other.trial.workload]
        self._vary, self._are_free = vary(*drawn), are_free(drawn)

    def _drop(self, shared: Shared, blocks: contextlib.ExitStack) -> None:
        self._remote.detach(shared.trial.name)
        blocks.close()

    def _bind(self, shape: Mapping[str, Value]) -> None:
        if self._bound_to != dict(shape):
            self._remote.bind(shape, self._request.params)
            self._bound_to = dict(shape)

    def _all_trials(self) -> Iterator[Trial]:
        """Inputs, and the reference's outputs on them."""
        self._setup.say("running the reference")
        with self._blaming_the_problem():
            yield from self._own_and_common_trials()

    @contextlib.contextmanager
    def _blaming_the_problem(self) -> Iterator[None]:
        """Make an exception of the reference, or of its inputs, the problem's error."""
        try:
            yield
        except (SolkitError, CandidateError, ContextLostError):
            raise
        except Exception as error:
            path = self._request.reference or self._request.path
            summary = "; ".join(explain(error, "running the reference", path))
            if verdict_of(error.__cause__ or error) is Verdict.OUT_OF_MEMORY:
                raise UnsupportedError(summary) from error
            raise KernelFileError(summary, path) from error

    def _own_and_common_trials(self) -> Iterator[Trial]:
        """First trials that no other candidate has seen, then those that candidates share.

        The candidate is timed on the former. What another candidate learned from the latter, or
        left behind, is of no use for them.
        """
        request, usual = self._request, 0

        def wide_limit_s() -> float:
            return _WIDE_SHARE * self._remote.left_s

        trials = Trials(
            self._make, request.seed, request.shape, request.skip, wide_limit_s, _free_bytes
        )
        self._trials = trials
        for trial in trials.own():
            usual = max(usual, trial.nonfinite)
            yield trial
            del trial  # it would stay in memory while the next ones are made
        seed = request.seed if request.common_seed is None else request.common_seed
        key = _digest(request), self._device, tuple(request.shape.items()), seed, request.skip
        held_out = self._problem.description.problem.held_out_shapes
        make = partial(replace(trials, seed=seed).common, held_out, usual)
        yield from self._setup.cache.trials(key, make)

    def _make(self, shape: Mapping[str, Value]) -> Workload:
        return bound_workload(self._problem, shape, {}, self._device)

    def _check_on(self, shared: Shared) -> None:
        trial, is_usual = shared.trial, shared.trial.is_usual
        self._remote.attach(trial.name, shared.packed, shared.block)
        self.calls += 1
        sizes = [tensor.numel() * tensor.element_size() for tensor in trial.want]
        aliases = self._effects.aliases
        look = self._remote.run(trial.name, trial.seed, sizes, aliases, guarded=is_usual)
        first = self._judge(look, shared, trial.name)
        shared.restore()
        if is_usual:
            again = self._remote.run(trial.name, trial.seed, sizes, aliases)
            second = self._judge(again, shared, f"{trial.name}, called again")
            shared.restore()
            if not same_bits(first, second):
                self.notes["Nondeterministic output: two calls on the same inputs differ."] = None
        self._setup.say("running the reference")

    def _share(self, trial: Trial, blocks: contextlib.ExitStack) -> Shared:
        """Share a trial's inputs with the candidate."""
        self._setup.say("sharing the inputs")
        packed = _packed(trial.workload, self._device)
        if self._known_effects is None:
            self._known_effects = _effects(trial, self._setup.machine)
        _make_room()
        block = self._allocate(packed.size, blocks)
        packed.fill(block)
        return Shared(trial, packed, block, self._effects.written)

    @property
    def _effects(self) -> _Effects:
        assert self._known_effects is not None
        return self._known_effects

    def _allocate(self, size: int, blocks: contextlib.ExitStack) -> Block:
        try:
            block = allocate(size, self._device)
        except torch.OutOfMemoryError as error:
            raise UnsupportedError(f"the inputs do not fit into memory twice: {error}") from error
        blocks.callback(block.close)
        return block

    def _judge(self, look: Look, shared: Shared, which: str) -> list[torch.Tensor]:
        """Judge the last call: the guard's findings, the outputs, and the inputs after it."""
        taken = self._taken(look, shared, which)
        self._decide(taken, shared.trial)
        return taken.got

    def _taken(self, look: Look, shared: Shared, which: str) -> _Taken:
        self.heed(look.findings)
        got = self._fetch(look.outputs, _bytes_of(shared.trial.want) or self._usual_bytes)
        changed = (
            f"input tensor {number} was written into, which the reference leaves as it was"
            for number in shared.packed.changed(shared.block)
            if number not in shared.written
        )
        return _Taken(which, got, tuple(self._misplaced(look.outputs)), tuple(changed))

    def _decide(self, taken: _Taken, trial: Trial) -> None:
        own = trial.workload.tolerance or self._problem.description.problem.tolerance
        comparison = trial.standard(own).judge(taken.got)
        self.max_error = max(self.max_error, comparison.max_error)
        errors = *taken.misplaced, *comparison.errors, *taken.changed
        if errors:
            told = tuple(f"{error} ({taken.which})" for error in errors)
            raise CandidateError(Verdict.WRONG, told)

    def _misplaced(self, forms: Sequence[Form]) -> Iterator[str]:
        for number, form in enumerate(forms):
            if form.is_input and not self._effects.aliases:
                yield f"output {number} lies in the memory of an input; the reference's does not"

    def _read_source(self) -> None:
        """Look for suspicious code; a solution of several files is not read."""
        path = Path(self._request.path)
        if path.suffix == ".py":
            self.heed(suspicions(path.read_text(encoding="utf-8"), str(path)))

    def heed(self, findings: Sequence[Finding]) -> None:
        """End the examination at a proof of cheating; report other findings."""
        sentences = [f"{finding.trick}: {finding.evidence}" for finding in findings]
        if any(finding.is_proof for finding in findings):
            raise CandidateError(Verdict.CHEATING, tuple(sentences))
        self.notes.update(dict.fromkeys(sentences))

    def _check_operators(self, shared: Shared) -> None:
        """If a custom kernel was requested: whether the candidate calls torch instead."""
        if self._request.custom_kernel:
            operators = self._remote.operators(shared.trial.name, shared.trial.seed)
            shared.restore()
            self._heed_delegation(by_operators(operators))

    def check_kernels(self) -> None:
        """The same for the kernels that ran on the GPU in timed calls."""
        if self._request.custom_kernel:
            kernels_ms = self._remote.kernels()
            if not kernels_ms:
                self.notes["The timer cannot tell whose kernels ran on the GPU."] = None
            self._heed_delegation(by_kernels(kernels_ms))

    def _heed_delegation(self, found: Finding | None) -> None:
        """A proof, together with the hints from the source."""
        if found is not None:
            hints = [f"{found.trick}: {found.evidence}"]
            hints += [note for note in self.notes if note.startswith(f"{found.trick}: ")]
            raise CandidateError(Verdict.CHEATING, tuple(hints))

    def _fetch(self, forms: Sequence[Form], expected: int) -> list[torch.Tensor]:
        _, size = offsets_of([form.size for form in forms])
        if size > 4 * expected + _OUTPUT_SLACK_BYTES:
            error = f"the outputs take {size} bytes, where the reference's take {expected}"
            raise CandidateError(Verdict.WRONG, (error,))
        is_new = self._results is None or self._results.size < size
        if is_new:
            self._results = self._allocate(size, self._setup.blocks)
        assert self._results is not None
        got = self._remote.fetch(self._results, forms, is_new)
        return [
            # on the candidate's device, which the comparison then names
            tensor.to(form.device) if form.device in ("cpu", "cuda") else tensor
            for tensor, form in zip(got, forms, strict=True)
        ]

    def judge_last(self, shared: Shared, which: str) -> None:
        """Judge the outputs of the last call."""
        self._judge(self._remote.look(), shared, which)

    def keep_last(self, shared: Shared, which: str) -> None:
        """Keep the outputs of the last call, for `judge_kept`, as far as memory allows."""
        if not shared.is_drawn:
            self.judge_last(shared, which)
            return
        self._kept.append((shared, self._taken(self._remote.look(), shared, which)))
        held = sum(_bytes_of(taken.got) + inputs.packed.size for inputs, taken in self._kept)
        if held > _MOST_KEPT_BYTES:
            self.judge_kept()

    def judge_kept(self) -> None:
        """Judge the calls that were kept, in any order; at least one, and as time allows."""
        assert self._trials is not None
        kept, self._kept = self._kept, []
        secret.shuffle(kept)
        deadline, count = time.monotonic() + _JUDGING_SHARE * self._remote.left_s, len(kept)
        while kept:
            if len(kept) < count and time.monotonic() > deadline:
                self.notes[f"{len(kept)} of {count} kept calls were not judged: no time."] = None
                return
            shared, taken = kept.pop()
            drawn = shared.trial
            with self._blaming_the_problem():
                trial = self._trials.on(_TIMED, drawn.seed, drawn.workload)
            self._decide(taken, trial)


def _free_bytes() -> float:
    """Memory that this process may still take."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return math.inf
    _make_room()
    return float(torch.cuda.mem_get_info()[0])


def _make_room() -> None:
    """Give back what this process's allocator keeps for itself, if that is much.

    The candidate's process, and memory that both share, cannot take it otherwise.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > _MOST_IDLE_BYTES:
        torch.cuda.empty_cache()


def _problem(request: Request) -> LoadedKernel:
    """The problem, without a candidate from another file."""
    if request.reference is None:
        return _without_candidate(load(request.path))
    try:
        return _without_candidate(load(request.reference))
    except KernelFileError:  # half of the problem is a launch description in the candidate's file
        return _without_candidate(load(request.path, reference=request.reference))


def _digest(request: Request) -> str:
    """A digest of the problem's file; of a folder, of its files' sizes and times of change."""
    path = Path(request.reference or request.path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        told = repr([(str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files]).encode()
    else:
        told = str(path.resolve()).encode() + path.read_bytes()
    return hashlib.sha256(told).hexdigest()


def _without_candidate(loaded: LoadedKernel) -> LoadedKernel:
    if loaded.description.problem.reference is None:
        path = loaded.description.path
        raise KernelFileError("has no reference to check the kernel against", path)
    loaded.description = replace(loaded.description, candidate=None)
    return loaded


def _effects(trial: Trial, machine: Machine) -> _Effects:
    """Run the reference once more, on a copy of the inputs, to see its effects on them."""
    workload = trial.workload
    copy = fresh(workload)
    versions = [_version(tensor) for tensor in tensors_of(copy)]
    start = time.perf_counter()
    seed_everything(trial.seed)
    want = copy.run_reference()
    machine.synchronize()
    reference_s = time.perf_counter() - start
    before, after = (_packed(each, machine.device).storages for each in (workload, copy))
    written = {n for n, (a, b) in enumerate(zip(before, after)) if not torch.equal(a, b)}
    touched = {  # also by writes that left the values as they were, as `relu_` may
        tensor.untyped_storage().data_ptr()
        for tensor, version in zip(tensors_of(copy), versions)
        if tensor.layout is torch.strided and _version(tensor) != version
    }
    written |= {n for n, storage in enumerate(after) if storage.data_ptr() in touched}
    declared = pack(workload.written_arguments(), machine.device).storages
    starts = {storage.data_ptr() for storage in declared}
    written |= {n for n, storage in enumerate(before) if storage.data_ptr() in starts}
    inside = {storage.data_ptr() for storage in after}
    strided = [tensor for tensor in want if tensor.layout is torch.strided]
    aliases = any(tensor.untyped_storage().data_ptr() in inside for tensor in strided)
    return _Effects(frozenset(written), aliases, reference_s)


def _version(tensor: torch.Tensor) -> int:
    """How often torch has written to it, by its own count; 0 for a tensor without a count."""
    return 0 if tensor.is_inference() else tensor._version


def _packed(workload: Workload, device: str) -> Packed:
    try:
        return pack((workload.args, dict(workload.kwargs)), device)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UnsupportedError(f"the inputs cannot be shared: {error}") from error


def _size(shared: Shared) -> int:
    return shared.block.size + _bytes_of(shared.trial.want)


def _bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _is_degenerate(checked: Sequence[Trial]) -> bool:
    """Whether different inputs gave the same outputs, floating ones among them."""
    one, *others = checked
    return any(
        any(tensor.is_floating_point() for tensor in other.want)
        and same_bits(one.want, other.want)
        and not is_unchanged(one.workload, other.workload)
        for other in others
    )
