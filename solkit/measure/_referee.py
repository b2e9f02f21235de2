"""The referee's process: inputs, expected outputs, comparing and the verdict are its own.

It imports the problem alone (and the candidate only where both stand in one file), and talks to
the candidate's process through `solkit.measure.remote`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from solkit.core import KernelAnalysis, Measurement, Protocol, Tolerance, Verdict
from solkit.errors import KernelFileError, SolkitError, UnsupportedError, WorkerError
from solkit.kernelfiles import LoadedKernel, Workload, load
from solkit.measure.activities import ActivityError, CallTime
from solkit.measure.channel import Channel, ClosedError
from solkit.measure.compare import compare, judge
from solkit.measure.conditions import screen
from solkit.measure.faults import CandidateError, explain, verdict_of
from solkit.measure.findings import Finding
from solkit.measure.inputs import fresh, is_unchanged, same_bits, seed_everything
from solkit.measure.machine import CpuMachine, CudaMachine, Machine
from solkit.measure.messages import Outcome, Request, Samples, decode, encode
from solkit.measure.protocols import find
from solkit.measure.remote import CandidateDiedError, Form, Look, Remote, offsets_of
from solkit.measure.sampling import Local, Plan, Series, Subject, plan_for, sample
from solkit.measure.sharing import Block, Packed, allocate, pack
from solkit.measure.statistics import median_interval
from solkit.measure.wallclock import check as check_by_wall_clock
from solkit.roofline.calibration.record import Conditions

__all__ = ["examine", "main"]

_RECORDED_CALLS = 1
_LOOKS = 6  # how many timed calls of a round have their outputs judged, about; the last one always
_MOST_TIMED_BYTES = 1 << 30  # of inputs: above it the timed calls share one set
_OUTPUT_SLACK_BYTES = 64 << 20
START_S = 120.0
"""For the candidate's process to load torch, which is no part of its time limit."""
_RESET_S = 10.0
_LEFT_BYTES = 64 << 20  # of device memory; cuBLAS keeps a workspace of up to 32 MiB

_DEGENERATE = (
    "The reference gives the same outputs, bit for bit, on two sets of inputs that differ: a "
    "kernel that does none of its work would be right."
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shared:
    """One set of inputs, and what is right on it.

    Attributes:
        name: what the candidate's process knows it by.
        seed: set before the reference ran, and before each call of the candidate.
        workload: the inputs, untouched, in memory of the referee's own.
        want: the reference's outputs.
        packed, block: the inputs as shared.
        written: numbers of the storages that the reference, too, writes into.
        aliases: whether outputs of the reference lie in its inputs.
        reference_s: how long the reference took, by the wall clock.
    """

    name: str
    seed: int
    workload: Workload
    want: list[torch.Tensor]
    packed: Packed
    block: Block
    written: frozenset[int]
    aliases: bool
    reference_s: float

    @property
    def is_written(self) -> bool:
        """Whether calls change the inputs, as they are meant to."""
        return bool(self.written)

    def restore(self) -> None:
        """Undo what a call wrote."""
        self.packed.fill(self.block)


@dataclass(frozen=True)
class Timed:
    """What timing gave.

    Attributes:
        candidate, reference: the calls that count.
        method, flush: as in `solkit.core.Protocol`.
        notes: why a better method was not used, and other things to know.
        conditions: clocks and the like meanwhile.
        unstable: why the times are not to be relied upon; empty where they are.
    """

    candidate: Series
    reference: Series
    method: str
    flush: str
    notes: tuple[str, ...]
    conditions: Conditions
    unstable: tuple[str, ...] = ()

    @property
    def samples(self) -> Samples:
        """As they are told."""
        times = tuple(self.candidate.spans_ms), tuple(self.reference.spans_ms)
        return Samples(*times, self.conditions)


def examine(request: Request, machine: Machine, channel: Channel, say: Say) -> Outcome:
    """Check and time the candidate of a request.

    Args:
        request: what to measure.
        machine: what the reference runs on.
        channel: to the candidate's process.
        say: told what is being done, so that it is known should a process die of it.

    Raises:
        InputError: the kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
        CandidateDiedError: the candidate's process ended.
    """
    deadline = time.monotonic() + request.time_limit_s
    remote = Remote(channel, deadline, request.time_limit_s, say)
    with contextlib.ExitStack() as blocks:
        try:
            return _Examination(request, machine, remote, say, blocks).outcome()
        except CandidateError as failure:
            return Outcome(failure.verdict, failure.errors, None, None)


class _Examination:
    """The course of one examination; raises `CandidateError` where the candidate fails."""

    def __init__(
        self,
        request: Request,
        machine: Machine,
        remote: Remote,
        say: Say,
        blocks: contextlib.ExitStack,
    ) -> None:
        self._request, self._machine, self._remote = request, machine, remote
        self._say, self._blocks = say, blocks
        self._protocol = find(request.protocol)
        self._results: Block | None = None
        self._max_error = 0.0
        self._notes: dict[str, None] = {}  # an ordered set

    def outcome(self) -> Outcome:
        self._say("loading the problem")
        self._problem = _problem(self._request)
        self._remote.load(self._request.path, self._request.reference, self._machine.device)
        sets = [self._check(seed) for seed in (self._request.seed + 1, self._request.seed)]
        degenerate = _is_degenerate(*sets)
        if sum(shared.block.size for shared in sets) > _MOST_TIMED_BYTES:
            self._give_back(sets.pop(0))
        launches = self._remote.launches(sets[-1].name, sets[-1].seed)
        sets[-1].restore()
        plan = plan_for(sets[-1].reference_s)
        timed = self._time(sets, plan)
        self._check_wall_clock(timed, sets[-1])
        self._heed(self._remote.look(guarded=True).findings)
        verdict = Verdict.UNSTABLE if timed.unstable else Verdict.CORRECT
        verdict = Verdict.DEGENERATE_PROBLEM if degenerate else verdict
        notes = ((_DEGENERATE,) if degenerate else ()) + timed.unstable + timed.notes
        protocol = self._record(timed, plan, len(sets))
        measurement = _measurement(timed, self._max_error, launches)
        return Outcome(verdict, (*notes, *self._notes), protocol, measurement, timed.samples)

    def _record(self, timed: Timed, plan: Plan, checked: int) -> Protocol:
        return Protocol(
            method=timed.method,
            l2=self._protocol.l2,
            flush=timed.flush,
            warmup_calls=checked + _RECORDED_CALLS + plan.warmup,
            samples=len(timed.candidate.times),
            time_limit_s=self._request.time_limit_s,
            seed=self._request.seed,
            name=self._protocol.name,
            launched=self._protocol.launched,
        )

    # --------------------------------------------------------------------------- correctness

    def _check(self, seed: int) -> Shared:
        """Have the candidate run on inputs of that seed; they stay shared."""
        shape = self._request.shape
        workload = self._make_inputs(shape, seed)
        shared = self._share(workload, seed, *self._run_reference(workload, seed))
        self._remote.bind(shape, self._request.params)
        self._remote.attach(shared.name, shared.packed, shared.block)
        sizes = [tensor.numel() * tensor.element_size() for tensor in shared.want]
        look = self._remote.run(shared.name, seed, sizes, shared.aliases, guarded=True)
        first = self._judge(look, shared, f"seed {seed}")
        shared.restore()
        again = self._remote.run(shared.name, seed, sizes, shared.aliases)
        second = self._judge(again, shared, f"seed {seed}, a second call")
        if not same_bits(first, second):
            self._notes["Two calls on the same inputs gave outputs that differ in bits."] = None
        shared.restore()
        return shared

    def _make_inputs(self, shape: Any, seed: int) -> Workload:
        self._say("making the inputs")
        seed_everything(seed)
        try:
            return self._problem.workload(shape, {}, self._machine.device)
        except KernelFileError as error:
            if verdict_of(error.__cause__ or error) is Verdict.OUT_OF_MEMORY:
                raise UnsupportedError(f"the inputs do not fit into memory: {error}") from error
            raise

    def _run_reference(
        self, workload: Workload, seed: int
    ) -> tuple[list[torch.Tensor], Workload, float]:
        self._say("running the reference")
        copy = fresh(workload)
        start = time.perf_counter()
        try:
            seed_everything(seed)
            want = copy.run_reference()
            self._machine.synchronize()
        except Exception as error:
            path = self._request.reference or self._request.path
            summary = "; ".join(explain(error, "running the reference", path))
            if verdict_of(error.__cause__ or error) is Verdict.OUT_OF_MEMORY:
                raise UnsupportedError(summary) from error
            raise KernelFileError(summary, path) from error
        return want, copy, time.perf_counter() - start

    def _share(
        self,
        workload: Workload,
        seed: int,
        want: list[torch.Tensor],
        copy: Workload,
        reference_s: float,
    ) -> Shared:
        """Put the inputs where the candidate sees them; nothing else lies there."""
        self._say("sharing the inputs")
        try:
            packed = pack((workload.args, dict(workload.kwargs)), self._machine.device)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UnsupportedError(f"the inputs cannot be shared: {error}") from error
        after = pack((copy.args, dict(copy.kwargs)), self._machine.device)
        pairs = zip(packed.storages, after.storages, strict=True)
        written = {number for number, (a, b) in enumerate(pairs) if not torch.equal(a, b)}
        declared = pack(workload.written_arguments(), self._machine.device).storages
        starts = {storage.data_ptr() for storage in declared}
        written |= {n for n, s in enumerate(packed.storages) if s.data_ptr() in starts}
        inside = {storage.data_ptr() for storage in after.storages}
        block = self._allocate(packed.size)
        packed.fill(block)
        return Shared(
            name=f"seed {seed}",
            seed=seed,
            workload=workload,
            want=want,
            packed=packed,
            block=block,
            written=frozenset(written),
            aliases=any(_start(tensor) in inside for tensor in want),
            reference_s=reference_s,
        )

    def _allocate(self, size: int) -> Block:
        try:
            block = allocate(size, self._machine.device)
        except torch.OutOfMemoryError as error:
            raise UnsupportedError(f"the inputs do not fit into memory twice: {error}") from error
        self._blocks.callback(block.close)
        return block

    def _give_back(self, shared: Shared) -> None:
        self._remote.detach(shared.name)

    def _judge(self, look: Look, shared: Shared, which: str) -> list[torch.Tensor]:
        """Judge the last call: what the guard saw, the outputs, and the inputs after it."""
        self._heed(look.findings)
        got = self._fetch(look.outputs, shared.want)
        tolerance = self._request.tolerance or self._problem.description.problem.tolerance
        errors = _odd_forms(look.outputs, shared.aliases)
        comparison = judge(got, shared.want, tolerance, shared.workload.check)
        self._max_error = max(self._max_error, comparison.max_error)
        errors += comparison.errors
        changed = [n for n in shared.packed.changed(shared.block) if n not in shared.written]
        errors += tuple(
            f"input tensor {number} was written into, which the reference leaves as it was"
            for number in changed
        )
        if errors:
            raise CandidateError(Verdict.WRONG, tuple(f"{error} ({which})" for error in errors))
        return got

    def _heed(self, findings: Sequence[Finding]) -> None:
        """Proofs of cheating end the examination; the rest is told."""
        sentences = [f"{finding.trick}: {finding.evidence}" for finding in findings]
        if any(finding.is_proof for finding in findings):
            raise CandidateError(Verdict.CHEATING, tuple(sentences))
        self._notes.update(dict.fromkeys(sentences))

    def _fetch(self, forms: Sequence[Form], want: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        _, size = offsets_of([form.size for form in forms])
        expected = sum(tensor.numel() * tensor.element_size() for tensor in want)
        if size > 4 * expected + _OUTPUT_SLACK_BYTES:
            error = f"the outputs take {size} bytes, where the reference's take {expected}"
            raise CandidateError(Verdict.WRONG, (error,))
        is_new = self._results is None or self._results.size < size
        if is_new:
            self._results = self._allocate(size)
        assert self._results is not None
        got = self._remote.fetch(self._results, forms, is_new)
        return [
            tensor.to(form.device) if _is_elsewhere(tensor, form) else tensor
            for tensor, form in zip(got, forms, strict=True)
        ]

    # --------------------------------------------------------------------------------- timing

    def _time(self, sets: Sequence[Shared], plan: Plan) -> Timed:
        self._say("timing")
        notes: list[str] = []
        timers, flush = self._machine.timers(self._protocol)
        for timer in timers:
            order = random.Random(self._request.seed)
            candidate = _CandidateSide(self, sets, timer.method, plan, order)
            reference = Local(timer, self._reference_subject(sets[-1]))
            try:
                with self._machine.conditions() as conditions:
                    taken = sample(candidate, reference, plan, order)
            except ActivityError as error:
                notes.append(f"not timed by {timer.method}: {error}")
                continue
            screening = screen(taken[0].ran, conditions.samples)
            first, second = (_kept(series, screening.kept) for series in taken)
            if screening.left_out:
                names = ", ".join(screening.reasons)
                notes.append(f"{screening.left_out} throttled calls left out ({names}).")
            seen, told = conditions.since(), tuple(notes)
            return Timed(first, second, timer.method, flush, told, seen, screening.evidence)
        raise WorkerError("no way of timing works here: " + "; ".join(notes))

    def _reference_subject(self, shared: Shared) -> Subject:
        def prepare() -> Callable[[], Any]:
            seed_everything(shared.seed)
            own = fresh(shared.workload) if shared.is_written else shared.workload
            return own.run_reference

        if self._protocol.launched == "eager":
            return Subject("reference", prepare)
        call = prepare()
        replay = self._machine.captured(lambda: [call() for _ in range(self._protocol.calls)])
        return Subject("reference", lambda: replay)

    def timed_call(self, shared: Shared, looks: bool) -> None:
        """One timed call of the candidate; its outputs are judged where that is wished."""
        calls = self._protocol.calls if self._protocol.launched == "graph" else 0
        self._remote.call(shared.name, shared.seed, calls)
        if looks and not (shared.is_written and calls > 1):  # a graph's calls write on each other
            self._judge(self._remote.look(), shared, "a timed call")
        if shared.is_written:
            shared.restore()

    def _check_wall_clock(self, timed: Timed, shared: Shared) -> None:
        told = median_interval(timed.candidate.spans_ms)

        def row(calls: int, behind_s: float) -> float:
            taken_s = self._remote.repeat(shared.name, shared.seed, calls, behind_s)
            if not shared.is_written:
                self._judge(self._remote.look(), shared, "the last of a row of calls")
            shared.restore()
            self._machine.synchronize()
            return taken_s

        found = check_by_wall_clock(told.high, row)
        if found.contradiction is not None:
            raise CandidateError(Verdict.CHEATING, (found.contradiction,))
        if found.note is not None:
            self._notes[found.note] = None

    def begin(self, method: str) -> None:
        """Begin a round of the candidate's calls."""
        self._remote.start(self._protocol.name, method)

    def end(self) -> list[CallTime]:
        """End it; the times that were told."""
        return self._remote.stop()


class _CandidateSide:
    """The candidate as what is sampled.

    Which inputs a call gets, and whose outputs are looked at, is drawn at random.
    """

    def __init__(
        self,
        examination: _Examination,
        sets: Sequence[Shared],
        method: str,
        plan: Plan,
        order: random.Random,
    ) -> None:
        self._examination, self._sets, self._method = examination, sets, method
        self._order = random.Random(order.random())
        self._share = _LOOKS / (plan.warmup + plan.minimum)

    def start(self) -> None:
        """See `solkit.measure.sampling.Side`."""
        self._examination.begin(self._method)

    def call(self) -> None:
        """See `solkit.measure.sampling.Side`."""
        looks = self._order.random() < self._share
        self._examination.timed_call(self._order.choice(self._sets), looks)

    def stop(self) -> list[CallTime]:
        """See `solkit.measure.sampling.Side`."""
        return self._examination.end()


# ----------------------------------------------------------------------------------- parts


def _problem(request: Request) -> LoadedKernel:
    """The problem, with no candidate where that stands in another file."""
    if request.reference is None:
        return _without_candidate(load(request.path))
    try:
        return _without_candidate(load(request.reference))
    except KernelFileError:  # a launch description in the candidate's file is half of the problem
        return _without_candidate(load(request.path, reference=request.reference))


def _without_candidate(loaded: LoadedKernel) -> LoadedKernel:
    if loaded.description.problem.reference is None:
        path = loaded.description.path
        raise KernelFileError("has no reference to check the kernel against", path)
    loaded.description = replace(loaded.description, candidate=None)
    return loaded


def _is_degenerate(one: Shared, other: Shared) -> bool:
    """Whether inputs that differ gave the same outputs, floating ones among them."""
    floating = any(tensor.is_floating_point() for tensor in other.want)
    same = not compare(one.want, other.want, Tolerance(0.0, 0.0)).errors
    return floating and same and not is_unchanged(one.workload, other.workload)


def _start(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else -1


def _odd_forms(forms: Sequence[Form], aliases: bool) -> tuple[str, ...]:
    if aliases:
        return ()
    return tuple(
        f"output {number} lies in the memory of an input, as the reference's do not"
        for number, form in enumerate(forms)
        if form.is_input
    )


def _is_elsewhere(tensor: torch.Tensor, form: Form) -> bool:
    """Whether the candidate had it on another device, where comparing will name that."""
    return form.device in ("cpu", "cuda") and tensor.device.type != form.device


def _kept(series: Series, kept: Sequence[bool]) -> Series:
    return Series(
        [taken for taken, counts in zip(series.times, kept, strict=True) if counts],
        [ran for ran, counts in zip(series.ran, kept, strict=True) if counts],
    )


def _measurement(
    timed: Timed, max_error: float, launches: tuple[KernelAnalysis, ...]
) -> Measurement:
    candidate = timed.candidate
    interval = median_interval(candidate.spans_ms)
    sums = [t.kernel_sum_ms for t in candidate.times if t.kernel_sum_ms is not None]
    return Measurement(
        median_ms=interval.median,
        low_ms=interval.low,
        high_ms=interval.high,
        kernel_sum_ms=median_interval(sums).median if sums else None,
        reference_ms=median_interval(timed.reference.spans_ms).median,
        method=timed.method,
        max_error=max_error,
        samples=len(candidate.times),
        sm_clock_mhz=timed.conditions.sm_clock_mhz,
        launches=launches,
    )


# --------------------------------------------------------------------------------- process


class _Referee:
    """The process: answers the session's requests, one candidate's process at a time."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._candidate: Channel | None = None
        self._candidate_pid: int | None = None
        self._is_new = False  # whether it has not said yet that it is ready
        self._machines: dict[str, Machine] = {}
        self._stage = ""

    def serve(self) -> None:
        """Answer until the session hangs up."""
        threading.Thread(target=self._end_with_the_session, daemon=True).start()
        with contextlib.suppress(ClosedError):
            while True:
                frame = self._control.receive()
                if "candidate" in frame.header:
                    self._take(int(frame.header["candidate"]), frame.descriptors[0])
                else:
                    request = decode(Request, frame.header["request"])
                    self._control.send(self._answer(request))

    def _take(self, pid: int, descriptor: int) -> None:
        if self._candidate is not None:
            self._candidate.close()
        self._candidate = Channel.of(descriptor, trusting=False)
        self._candidate_pid = pid
        self._is_new = True

    def _answer(self, request: Request) -> dict[str, Any]:
        assert self._candidate is not None
        try:
            machine = self._machine(request.device)
            self._wait_for(self._candidate)
            outcome = examine(request, machine, self._candidate, self._say)
            answer: dict[str, Any] = {"outcome": encode(outcome)}
        except CandidateDiedError as death:
            return {"died": death.doing}
        except SolkitError as error:
            answer = {"error": type(error).__name__, "args": list(error.args)}
        except BaseException:  # the session must hear of it, whatever it was
            text = f"the referee's process failed:\n{traceback.format_exc()}"
            return {"error": WorkerError.__name__, "args": [text], "keep": False}
        return {**answer, "keep": self._is_fit_for_another(self._candidate)}

    def _wait_for(self, candidate: Channel) -> None:
        if self._is_new:
            deadline = time.monotonic() + START_S
            Remote(candidate, deadline, START_S, self._say).wait_until_ready()
            self._is_new = False
        self._stage = ""  # the time limit counts from the next stage on

    def _machine(self, device: str) -> Machine:
        if device not in self._machines:
            self._machines[device] = CpuMachine() if device == "cpu" else CudaMachine()
        return self._machines[device]

    def _is_fit_for_another(self, candidate: Channel) -> bool:
        remote = Remote(candidate, time.monotonic() + _RESET_S, _RESET_S, self._say)
        try:
            return remote.reset() <= _LEFT_BYTES
        except (CandidateError, CandidateDiedError, ActivityError, SolkitError):
            return False

    def _say(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self._control.send({"stage": stage})

    def _end_with_the_session(self) -> None:
        """Where the session's process is gone, whatever became of it, nothing may stay."""
        poll = select.poll()
        poll.register(self._control, select.POLLRDHUP)
        poll.poll()
        for group in (self._candidate_pid, os.getpid()):
            if group is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)


def main(descriptor: int) -> None:
    """The process: serve on an inherited socket, then end without any exit handler."""
    faulthandler.enable()
    _Referee(Channel.of(descriptor, trusting=True)).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
