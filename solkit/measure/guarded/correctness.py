"""Checks of a candidate: its outputs on many inputs, what it writes, how it works.

The referee imports only the problem (and the candidate if both are in one file). It talks to the
candidate's process through `solkit.measure.guarded.remote`.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from solkit.core import Needed, Value, Verdict
from solkit.errors import KernelFileError, MemoryLimitError, SolkitError, UnsupportedError
from solkit.kernelfiles import Workload
from solkit.kernelfiles.rounding import round_to_tf32
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.anti_cheating import Finding
from solkit.measure.anti_cheating.delegation import by_kernels, by_operators
from solkit.measure.anti_cheating.source_suspicion import suspicions
from solkit.measure.checking.chunked_tensors import equal_bytes
from solkit.measure.checking.distributions import DISTRIBUTIONS
from solkit.measure.checking.faults import (
    ALL_DISTRIBUTIONS,
    CandidateError,
    ContextLostError,
    explain_error,
    verdict_of,
)
from solkit.measure.checking.inputs import (
    bound_workload,
    copy_workload,
    drawn_workload,
    fingerprints_of,
    is_unchanged,
)
from solkit.measure.checking.redrawing import choose_draws, draws_vary, values_may_move
from solkit.measure.checking.trials import Trial, TrialCache, Trials
from solkit.measure.guarded import impossibility
from solkit.measure.guarded.fresh_inputs import Drawn, Redraws, Shared, secret
from solkit.measure.guarded.messages import Request
from solkit.measure.guarded.problem_loading import digest_problem, load_problem
from solkit.measure.guarded.remote import Form, Look, Remote, Say
from solkit.measure.guarded.sharing import Block, Packed, allocate_block, offsets_of, pack_value
from solkit.measure.memory_needs import least_memory_bytes
from solkit.measure.sensitivity.needed import LIMIT_S
from solkit.measure.timing.machine import Machine

_MOST_TIMED_BYTES = 1 << 30  # of inputs and outputs: above it timed calls share one set
_TRIALS_SHARE = 0.4  # of the time limit: then no further distribution is tried
_WIDE_SHARE = 0.15  # of the time that is left: for one trial in wide arithmetic
_JUDGING_SHARE = 0.5  # of the time that is left: for judging timed calls
_LATE_SHARE = 0.1  # of the large calls after that: a kernel cannot know when it is safe
_MOST_IDLE_BYTES = 1 << 30  # of outputs: above it their shared memory is freed after each call
_OUTPUT_SLACK_BYTES = 64 << 20
_ROOM_TIMES = 4
"""Memory that a candidate finds, in sizes of its inputs and outputs, before this process gives back
what its allocator keeps: taking tens of GB anew takes the driver longer than most work on them."""
_MOST_KEPT_BYTES = 1 << 30  # of inputs and outputs of calls that are judged later
_TIMED = "a timed call"
_TWINS = frozenset(distribution.name for distribution in DISTRIBUTIONS if distribution.is_twin)
_DISTRIBUTED = frozenset(distribution.name for distribution in DISTRIBUTIONS)


@dataclass(frozen=True)
class Setup:
    """Means that the referee provides for the examination of candidates."""

    machine: Machine  # runs the reference
    say: Say  # receives the current step
    # closes shared memory, once the candidates' processes have released it
    blocks: contextlib.ExitStack
    # trials that earlier candidates had in common with these
    cache: TrialCache = field(default_factory=TrialCache)


@dataclass(frozen=True)
class _Taken:
    """Facts of an ended call, except whether its outputs are correct."""

    which: str  # call
    got: list[torch.Tensor]  # in the referee's memory
    misplaced: tuple[str, ...]  # outputs that lie in inputs
    changed: tuple[str, ...]  # inputs that were written into


@dataclass(frozen=True)
class _Usual:
    """Inputs of ``inputs()`` that the candidate was checked on."""

    name: str
    seed: int
    prints: list[tuple[object, ...]]  # fingerprints of the correct outputs
    is_floating: bool  # whether there are floating ones among these
    shared: Shared | None  # ``None`` if they had to leave memory
    # what remains then: the correct outputs, if they are few; else ``None``
    lean: Trial | None


class Checks:
    """Checks one candidate, in its process; raises `CandidateError` if it fails."""

    def __init__(self, request: Request, remote: Remote, setup: Setup) -> None:
        self._request, self._remote, self._setup = request, remote, setup
        self._device = setup.machine.device
        self._results: Block | None = None
        self._result_blocks = setup.blocks.enter_context(contextlib.ExitStack())
        self._bound_to: dict[str, Value] | None = None
        self._known_effects: Effects | None = None
        self._trials: Trials | None = None
        self._is_large = False  # whether its inputs leave memory between trials
        self._swapped = False  # whether it was checked on inputs with swapped values
        self._vary = self._are_free = False  # see `solkit.measure.checking.redrawing`
        self._kept: list[tuple[Shared, _Taken]] = []  # calls to judge
        self._judged = self._unjudged = 0  # of the kept calls
        self._judging_s, self._unjudged_note = 0.0, ""
        self._usual_bytes = 0  # of the outputs
        self._sizes: tuple[int, int] | None = None  # bytes of inputs and outputs, if known
        self._key = secret.getrandbits(63)  # of fingerprints
        self.max_error = 0.0  # largest deviation from the reference so far
        self.is_right_elsewhere = True  # whether there was time for all held-out shapes
        self.is_degenerate = False  # whether different inputs gave the same outputs
        self.calls = 1  # of the candidate before timing, including one that records launches
        self.notes: dict[str, None] = {}  # remarks on the candidate: an ordered set

    def check_candidate(self) -> list[Shared]:
        """Check the candidate and bind it to the timed shape; gives the inputs to time it on."""
        self._setup.say("loading the problem")
        self._problem = load_problem(self._request)
        tf32 = self._problem.description.problem.allows_tf32
        round_to_tf32(tf32)
        own = self._request.path, self._request.reference
        self._remote.load(*own, self._device, tf32=tf32, tuned=self._request.tuned)
        path = Path(self._request.path)
        if path.suffix == ".py":  # a solution of several files is not read
            self.heed_findings(suspicions(path.read_text(encoding="utf-8"), str(path)))
        sets = self._check_trials()
        self._bind_shape(self._request.shape)
        self._check_operators(sets[-1])
        return sets

    def exchange_inputs(self, own: Sequence[Shared], others: Sequence[Shared]) -> None:
        """Replace the candidate's inputs by those of another examination."""
        for shared in own:
            self._remote.detach(shared.trial.name)
        for shared in others:
            self._remote.attach(shared.trial.name, shared.packed, shared.block)

    def make_redraws(self, sets: Sequence[Shared], remotes: Sequence[Remote]) -> Redraws:
        """Return the inputs of timed calls, shared with these candidates as `sets`."""
        self._setup.say("drawing inputs")
        usual, shape = sets[-1].trial.workload, self._request.shape
        without = usual.with_inputs((), {})
        trials = self._trials
        assert trials is not None

        def draw(seed: int) -> Workload:
            seed_everything(seed)
            return drawn_workload(self._problem, without, shape, self._device)

        def mix(seed: int) -> Workload:
            return trials.mix_values(usual, seed)

        with self._blaming_the_problem():
            draws = choose_draws(
                usual,
                draw,
                mix if self._swapped and self._are_free else None,
                self._vary,
                lambda: secret.getrandbits(62),
                self._setup.machine.synchronize,
            )

        def taken_apart(workload: Workload) -> Packed:
            return pack_inputs(workload, self._device)

        def allocated(size: int) -> Block:
            return self._allocate_block(size, self._setup.blocks)

        leave = draws.kind == "drawn" and self._is_large
        first = partial(trials.redraw_inputs, sets[-1].trial.seed) if leave else None
        free_bytes = self._free_bytes
        return Redraws(sets, draws, remotes, taken_apart, allocated, first, free_bytes)

    def redraw_trial(self, redraws: Redraws, drawn: Drawn) -> Trial:
        """Return the inputs of a turn once more."""
        with self._blaming_the_problem():
            workload = redraws.draw_again(drawn)
        return Trial(_TIMED, drawn.seed, workload, [], None, shape=self._request.shape)

    def measure_needs(self, trials: Sequence[Trial]) -> Needed | None:
        """Return what the timed inputs make compulsory; ``None`` without time to measure it."""
        if impossibility.STAGE in self._request.skip or not trials:
            return None
        self._setup.say(impossibility.STAGE)
        return impossibility.measure_least_need(
            # correct outputs matter to the file's own comparison only
            [
                trial if trial.workload.check is None else self._with_outputs(trial)
                for trial in trials
            ],
            lambda: self._make_workload(self._request.shape),
            self._problem.description.problem.tolerance,
            min(LIMIT_S, self._remote.remaining_s),
        )

    @property
    def is_large(self) -> bool:
        """True if the inputs are so large that one set is in memory at a time."""
        return self._is_large

    @property
    def reference_s(self) -> float:
        """The reference's wall-clock time."""
        return self._effects.reference_s

    def _check_trials(self) -> list[Shared]:
        """Run the candidate on all trials; gives those from ``inputs()`` that it is timed on.

        Large ones leave memory to the other trials, and are made once more.
        """
        usual: list[_Usual] = []
        if ALL_DISTRIBUTIONS in self._request.skip:
            self.notes[f"Not checked on {ALL_DISTRIBUTIONS}: no time for all."] = None
        deadline = time.monotonic() + self._limit_s(_TRIALS_SHARE * self._request.time_limit_s)
        for trial in self._all_trials():
            if time.monotonic() > deadline and not trial.is_usual:
                self.notes[f"Not checked on {trial.name} and what follows: no time."] = None
                is_own = dict(trial.shape) == dict(self._request.shape)
                self.is_right_elsewhere = is_own and trial.name not in _TWINS  # these come before
                break
            if trial.name in self._request.excused:
                self.notes[f"Not checked on {trial.name}: the original is wrong there."] = None
                continue
            if trial.name in _DISTRIBUTED and self._request.tried_on not in ("", trial.name):
                continue
            self._note_if_short(trial)
            self._bind_shape(trial.shape)
            blocks = self._setup.blocks.enter_context(contextlib.ExitStack())
            shared = self._share_inputs(trial, blocks)
            self._check_trial(shared)
            self._swapped |= trial.name in _TWINS
            size = shared.block.size + _total_bytes(trial.want)
            stays = trial.is_usual and 2 * size <= _MOST_TIMED_BYTES
            if not stays:
                self._drop_inputs(shared, blocks)
            if trial.is_usual:
                self._usual_bytes = _total_bytes(trial.want)
                prints = fingerprints_of(trial.want, self._key)
                is_floating = any(tensor.is_floating_point() for tensor in trial.want)
                kept = shared if stays else None
                is_lean = trial.outputs_bytes <= _MOST_KEPT_BYTES and not trial.is_short
                lean = trial.without_inputs() if is_lean and not stays else None
                usual.append(_Usual(trial.name, trial.seed, prints, is_floating, kept, lean))
            is_second = trial.is_usual and len(usual) == 2
            del trial, shared, blocks  # they would stay in memory while the next trial is made
            if is_second:
                self._compare_draws(*usual)
        for name in self._trials.left_out if self._trials is not None else ():
            self.notes[f"Not checked on {name}: its inputs do not fit into memory."] = None
        sets = [draw.shared for draw in usual if draw.shared is not None]
        self._is_large = not sets
        return sets or [self._shared_again(usual[-1])]

    def _limit_s(self, share_s: float) -> float:
        """Return the seconds for checks of a kind that may take `share_s` seconds."""
        limit_s = self._request.checks_limit_s
        return share_s if limit_s is None else min(share_s, limit_s)

    def _compare_draws(self, one: _Usual, other: _Usual) -> None:
        """Find what two draws of the inputs have in common."""
        drawn = [self._usual_inputs(draw) for draw in (one, other)]
        self._vary, self._are_free = draws_vary(*drawn), values_may_move(drawn)
        self.is_degenerate = (
            other.is_floating and one.prints == other.prints and not is_unchanged(*drawn)
        )

    def _with_outputs(self, trial: Trial) -> Trial:
        """Return a trial with its correct outputs; those that may not be judged lack them."""
        if trial.want:
            return trial
        assert self._trials is not None
        with self._blaming_the_problem():
            completed = self._trials.trial_on(_TIMED, trial.seed, trial.workload)
        self._note_if_short(completed)
        return completed

    def _note_if_short(self, trial: Trial) -> None:
        if trial.is_short:
            self.notes[f"Tolerances alone decide: {trial.notes[0]}."] = None

    def _usual_inputs(self, usual: _Usual) -> Workload:
        if usual.shared is not None:
            return usual.shared.trial.workload
        assert self._trials is not None
        with self._blaming_the_problem():
            return self._trials.redraw_inputs(usual.seed)

    def _shared_again(self, usual: _Usual) -> Shared:
        """Return inputs that had to leave memory, with their outputs if these were kept.

        Else outputs are computed for judged calls.
        """
        shape, workload = self._request.shape, self._usual_inputs(usual)
        trial = None if usual.lean is None else usual.lean.with_inputs(workload)
        if trial is None:
            trial = Trial(usual.name, usual.seed, workload, [], None, shape=shape)
        shared = self._share_inputs(trial, self._setup.blocks)
        self._remote.attach(trial.name, shared.packed, shared.block)
        return shared

    def _drop_inputs(self, shared: Shared, blocks: contextlib.ExitStack) -> None:
        self._remote.detach(shared.trial.name)
        blocks.close()

    def _bind_shape(self, shape: Mapping[str, Value]) -> None:
        if self._bound_to != dict(shape):
            self._setup.machine.make_room()  # the candidate's process makes inputs of its own
            self._remote.bind(shape, self._request.params)
            self._bound_to = dict(shape)

    def _all_trials(self) -> Iterator[Trial]:
        """Yield inputs, and the reference's outputs on them."""
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
            summary = "; ".join(explain_error(error, "running the reference", path))
            if verdict_of(error.__cause__ or error) is Verdict.OUT_OF_MEMORY:
                raise MemoryLimitError(self._lack_of_memory(summary)) from error
            raise KernelFileError(summary, path) from error

    def _lack_of_memory(self, summary: str) -> str:
        """Return an error that says what the problem needs, what there is, and what to do."""
        free, total = self._setup.machine.free_bytes(), self._setup.machine.total_bytes()
        clauses = [summary]
        if self._sizes is not None:
            inputs, outputs = self._sizes
            least = least_memory_bytes(inputs, outputs)
            clauses.append(
                f"inputs of {inputs / 1e9:.1f} GB and outputs of {outputs / 1e9:.1f} GB need at "
                f"least {least / 1e9:.1f} GB, and what the reference and the kernel work with"
            )
        if total < math.inf:
            clauses.append(
                f"the GPU has {total / 1e9:.1f} GB, of which {free / 1e9:.1f} GB are free"
            )
        clauses.append("choose a smaller shape, a larger GPU, or end what else uses this one")
        return "; ".join(clauses)

    def _free_bytes(self) -> float:
        """Memory that this process may still take."""
        machine = self._setup.machine
        return machine.free_bytes() + machine.idle_bytes()

    def _own_and_common_trials(self) -> Iterator[Trial]:
        """First trials that no other candidate has seen, then those that candidates share.

        The candidate is timed on the former. What another candidate learned from the latter, or
        left behind, is of no use for them.
        """
        request, usual = self._request, 0

        def wide_limit_s() -> float:
            return _WIDE_SHARE * self._remote.remaining_s

        trials = Trials(
            self._make_workload,
            request.seed,
            request.shape,
            request.skip,
            wide_limit_s,
            self._free_bytes,
        )
        self._trials = trials
        for trial in trials.own_trials():
            usual = max(usual, trial.nonfinite_count)
            yield trial
            del trial  # it would stay in memory while the next ones are made
        seed = request.seed if request.common_seed is None else request.common_seed
        key = (
            digest_problem(request),
            self._device,
            tuple(request.shape.items()),
            seed,
            request.skip,
            request.is_right_elsewhere,
        )
        held_out = self._problem.description.problem.held_out_shapes
        if request.is_right_elsewhere:
            held_out = ()
        make = partial(replace(trials, seed=seed).common_trials, held_out, usual)
        is_hasty = request.checks_limit_s is not None
        if is_hasty and self._setup.cache.leaves_out(key):
            self.notes["Not checked on all distributions: no room to keep correct outputs."] = None
        yield from self._setup.cache.cached_trials(key, make, trials.remake_inputs, is_hasty)

    def _make_workload(self, shape: Mapping[str, Value]) -> Workload:
        return bound_workload(self._problem, shape, {}, self._device)

    def _check_trial(self, shared: Shared) -> None:
        trial, is_usual = shared.trial, shared.trial.is_usual
        self._remote.attach(trial.name, shared.packed, shared.block)
        self.calls += 1
        sizes = [tensor.numel() * tensor.element_size() for tensor in trial.want]

        def judged(which: str, guarded: bool) -> list[tuple[object, ...]]:
            look = self._run_candidate(shared, sizes, guarded)
            got = self._judge_call(look, shared, which)
            if shared.written:  # else nothing changed, or the candidate is wrong
                shared.restore()
            return fingerprints_of(got, self._key) if is_usual else []

        first = judged(trial.name, is_usual)
        if is_usual and judged(f"{trial.name}, called again", False) != first:
            self.notes["Nondeterministic output: two calls on the same inputs differ."] = None
        self._setup.say("running the reference")

    def _run_candidate(self, shared: Shared, sizes: Sequence[int], guarded: bool) -> Look:
        """Run the candidate on a trial; once more with all memory if it had too little."""
        trial, machine = shared.trial, self._setup.machine
        aliases = self._effects.aliases
        machine.make_room(_ROOM_TIMES * (shared.block.size + sum(sizes)))
        try:
            return self._remote.run(trial.name, trial.seed, sizes, aliases, guarded=guarded)
        except CandidateError as failure:
            idle = machine.idle_bytes()
            if failure.verdict is not Verdict.OUT_OF_MEMORY or not idle:
                raise
        machine.empty_cache()
        shared.restore()
        return self._remote.run(trial.name, trial.seed, sizes, aliases, guarded=guarded)

    def _share_inputs(self, trial: Trial, blocks: contextlib.ExitStack) -> Shared:
        """Share a trial's inputs with the candidate."""
        self._setup.say("sharing the inputs")
        inputs = pack_inputs(trial.workload, self._device)
        if trial.want:
            self._sizes = inputs.size, _total_bytes(trial.want)
        if self._known_effects is None:
            self._known_effects = observe_effects(trial, self._setup.machine)
        self._setup.machine.make_room(inputs.size + _OUTPUT_SLACK_BYTES)
        block = self._allocate_block(inputs.size, blocks)
        inputs.fill_block(block)
        return Shared(trial, inputs, block, self._effects.written)

    @property
    def _effects(self) -> Effects:
        assert self._known_effects is not None
        return self._known_effects

    def _allocate_block(self, size: int, blocks: contextlib.ExitStack) -> Block:
        try:
            block = allocate_block(size, self._device)
        except torch.OutOfMemoryError as error:
            summary = f"memory that the candidate's process shares: {error}"
            raise MemoryLimitError(self._lack_of_memory(summary)) from error
        blocks.callback(block.close)
        return block

    def _judge_call(self, look: Look, shared: Shared, which: str) -> list[torch.Tensor]:
        """Judge the last call: the guard's findings, the outputs, and the inputs after it."""
        taken = self._take_outputs(look, shared, which)
        self._compare_outputs(taken, shared.trial)
        return taken.got

    def _take_outputs(self, look: Look, shared: Shared, which: str) -> _Taken:
        self.heed_findings(look.findings)
        got = self._fetch_outputs(
            look.outputs, _total_bytes(shared.trial.want) or self._usual_bytes
        )
        changed = (
            f"input tensor {number} was written into, which the reference leaves as it was"
            for number in shared.packed.changed_storages(shared.block)
            if number not in shared.written
        )
        return _Taken(which, got, tuple(self._find_misplaced(look.outputs)), tuple(changed))

    def _compare_outputs(self, taken: _Taken, trial: Trial) -> None:
        trial = self._with_outputs(trial)
        own = trial.workload.tolerance or self._problem.description.problem.tolerance
        comparison = trial.standard(own).judge(taken.got)
        self.max_error = max(self.max_error, comparison.max_error)
        errors = *taken.misplaced, *comparison.errors, *taken.changed
        if errors:
            messages = tuple(f"{error} ({taken.which})" for error in errors)
            failed_on = trial.name if trial.name in _DISTRIBUTED else ""
            raise CandidateError(Verdict.WRONG, messages, failed_on)

    def _find_misplaced(self, forms: Sequence[Form]) -> Iterator[str]:
        for number, form in enumerate(forms):
            if form.is_input and not self._effects.aliases:
                yield f"output {number} lies in the memory of an input; the reference's does not"

    def heed_findings(self, findings: Sequence[Finding]) -> None:
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
        """Check the same for the kernels that ran on the GPU in timed calls."""
        if self._request.custom_kernel:
            kernels_ms = self._remote.kernels()
            if not kernels_ms:
                self.notes["The timer cannot tell whose kernels ran on the GPU."] = None
            self._heed_delegation(by_kernels(kernels_ms))

    def _heed_delegation(self, finding: Finding | None) -> None:
        """Raise a proof, together with the hints from the source."""
        if finding is not None:
            hints = [f"{finding.trick}: {finding.evidence}"]
            hints += [note for note in self.notes if note.startswith(f"{finding.trick}: ")]
            raise CandidateError(Verdict.CHEATING, tuple(hints))

    def _fetch_outputs(self, forms: Sequence[Form], expected: int) -> list[torch.Tensor]:
        _, size = offsets_of([form.size for form in forms])
        if size > 4 * expected + _OUTPUT_SLACK_BYTES:
            error = f"the outputs take {size} bytes, where the reference's take {expected}"
            raise CandidateError(Verdict.WRONG, (error,))
        if size > _MOST_IDLE_BYTES:  # they do not wait for the next call
            self._release_results()
            self._setup.machine.make_room(size + _OUTPUT_SLACK_BYTES)
            with contextlib.ExitStack() as blocks:
                block = self._allocate_block(size, blocks)
                got = self._remote.fetch(block, forms, is_new=True, stays=False)
        else:
            is_new = self._results is None or self._results.size < size
            if is_new:
                self._release_results()
                self._results = self._allocate_block(size, self._result_blocks)
            assert self._results is not None
            got = self._remote.fetch(self._results, forms, is_new)
        return [
            # on the candidate's device, which the comparison then names
            tensor.to(form.device) if form.device in ("cpu", "cuda") else tensor
            for tensor, form in zip(got, forms, strict=True)
        ]

    def _release_results(self) -> None:
        """Free the block; the candidate lets go of its side with the next memory it gets."""
        self._result_blocks.close()
        self._results = None

    def judge_last_call(self, shared: Shared, which: str) -> None:
        """Judge the outputs of the last call; of large inputs as time allows."""
        look = self._remote.look()
        if shared.trial.want:
            self._judge_call(look, shared, which)
        elif self._may_skip_judging():
            self._skip_judging(look)
        else:  # the correct outputs are computed for it
            begun_s = time.monotonic()
            self._judge_call(look, shared, which)
            self._judged, self._judging_s = self._judged + 1, self._judging_s + _elapsed_s(begun_s)

    def keep_last_call(self, shared: Shared, which: str) -> None:
        """Keep the outputs of the last call, for `judge_kept_calls`, as far as memory allows."""
        if not shared.is_drawn:
            self.judge_last_call(shared, which)
            return
        look = self._remote.look()
        if self._may_skip_judging():
            self._skip_judging(look)
            return
        self._kept.append((shared, self._take_outputs(look, shared, which)))
        held = sum(_total_bytes(taken.got) + inputs.packed.size for inputs, taken in self._kept)
        if held > _MOST_KEPT_BYTES:
            self._judge_some_kept(1)

    def judge_kept_calls(self) -> None:
        """Judge the calls that were kept, in any order; at least one, and as time allows."""
        if self._kept:
            self._setup.say("judging timed calls")
        self._judge_some_kept(1)

    def _judge_some_kept(self, least: int) -> None:
        kept, self._kept = self._kept, []
        secret.shuffle(kept)
        while kept and (least > 0 or not self._has_judged_enough()):
            shared, taken = kept.pop()
            begun_s = time.monotonic()
            self._compare_outputs(taken, shared.trial)
            self._judging_s += _elapsed_s(begun_s)
            self._judged, least = self._judged + 1, least - 1
            del shared, taken  # they would stay in memory while the next call is judged
        self._note_unjudged(len(kept))
        self._setup.machine.make_room()

    def _may_skip_judging(self) -> bool:
        return self._has_judged_enough() and secret.random() >= _LATE_SHARE

    def _skip_judging(self, look: Look) -> None:
        self.heed_findings(look.findings)
        self._note_unjudged(1)

    def _note_unjudged(self, more: int) -> None:
        """Note how many calls were looked at but not judged, in place of what was noted before."""
        self.notes.pop(self._unjudged_note, None)
        self._unjudged += more
        if self._unjudged:
            count = self._judged + self._unjudged
            note = f"{self._unjudged} of {count} looked-at calls were not judged: no time."
            self.notes[note], self._unjudged_note = None, note

    def _has_judged_enough(self) -> bool:
        """Tell whether a call was judged, and there is no time for another."""
        limit_s = self._limit_s(_JUDGING_SHARE * (self._remote.remaining_s + self._judging_s))
        return self._judged > 0 and self._judging_s > limit_s


def _elapsed_s(begun_s: float) -> float:
    return time.monotonic() - begun_s


def _total_bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# ------------------------------------------------------ Effects of a reference besides its outputs


@dataclass(frozen=True)
class Effects:
    """Effects of a reference besides its outputs."""

    # numbers of the inputs' storages that it writes to, or declares as written
    written: frozenset[int]
    aliases: bool  # whether its outputs lie in its inputs
    reference_s: float  # its wall-clock time


def observe_effects(trial: Trial, machine: Machine) -> Effects:
    """Run the reference once more, on a copy of the inputs, to see its effects on them."""
    workload = trial.workload
    copy = copy_workload(workload)
    versions = [_write_version(tensor) for tensor in copy.tensors()]
    start = time.perf_counter()
    seed_everything(trial.seed)
    want = copy.run_reference()
    machine.synchronize()
    reference_s = time.perf_counter() - start
    before, after = (pack_inputs(inputs, machine.device).storages for inputs in (workload, copy))
    written = {n for n, (a, b) in enumerate(zip(before, after)) if not equal_bytes(a, b)}
    touched = {  # also by writes that left the values as they were, as `relu_` may
        tensor.untyped_storage().data_ptr()
        for tensor, version in zip(copy.tensors(), versions)
        if tensor.layout is torch.strided and _write_version(tensor) != version
    }
    written |= {n for n, storage in enumerate(after) if storage.data_ptr() in touched}
    declared = pack_value(workload.written_arguments(), machine.device).storages
    starts = {storage.data_ptr() for storage in declared}
    written |= {n for n, storage in enumerate(before) if storage.data_ptr() in starts}
    inside = {storage.data_ptr() for storage in after}
    strided = [tensor for tensor in want if tensor.layout is torch.strided]
    aliases = any(tensor.untyped_storage().data_ptr() in inside for tensor in strided)
    return Effects(frozenset(written), aliases, reference_s)


def _write_version(tensor: torch.Tensor) -> int:
    """Return how often torch has written to a tensor, by its own count; 0 without a count."""
    return 0 if tensor.is_inference() else tensor._version


def pack_inputs(workload: Workload, device: str) -> Packed:
    """Return inputs, taken apart to be shared.

    Raises:
        UnsupportedError: they cannot be.
    """
    try:
        return pack_value((workload.args, dict(workload.kwargs)), device)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UnsupportedError(f"the inputs cannot be shared: {error}") from error
