"""The timing process, which has the GPU: it checks and times configurations in handfuls.

A handful holds configurations of one kernel at one shape. They share their inputs. Each is called
and compared with the reference. The correct ones are then timed in turns, in random order, by CUPTI
activity records as everywhere in SolKit; a buffer is read before each call to flush L2. A recorded
kernel is timed as its program launches it: in a CUDA graph if that does, and with those tensors in
L2 that the launches before leave there.

After the checks, inputs and reference results are compared with a copy. If a configuration wrote to
them, each is tried again on its own, so that it affects no other. If timing in turns fails, each is
timed on its own, so that only the one at fault has no time. The reference is timed once per shape.

A configuration arrives as the draft of its `Outcome` and leaves as the complete one.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import platform
import random
import signal
import time
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import solkit
from solkit.core import Device, L2State, Outcome, Params, Verdict, canonical
from solkit.errors import WorkerError
from solkit.measure.outcomes import condition_fields, live_launch
from solkit.processes.host import is_machine_fault
from solkit.spans import Stages, span

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import torch

    from solkit.kernelfiles import LoadedKernel, Workload
    from solkit.measure.timing.machine import Machine
    from solkit.measure.timing.protocols import TimingProtocol
    from solkit.measure.timing.sampling import Series


SEED = 0
"""The seed of inputs and of the order of timing."""

NOTHING_CALLED = -1

RESIDENT = "resident"
"""In the answer of `survey_bound`: tensors that L2 holds when the program launches the kernel."""

GAP_MS = 5e-3
"""A longer gap between two launches means that the host stalled: on an H100, 95 % of the gaps are
shorter than half of this."""

Called = MutableSequence[int] | memoryview
"""Memory shared by both processes: the number of the configuration called last, and the number of
calls."""

_CALLED_BYTES = 16


def shared_numbers(file: int) -> memoryview:
    """Return the memory of `Called` in a file, which it makes long enough."""
    os.truncate(file, _CALLED_BYTES)
    return memoryview(mmap.mmap(file, _CALLED_BYTES)).cast("q")


_SHORT_MS = 5.0  # a call that takes longer is timed fewer times
_SAMPLES, _SAMPLES_OF_LONG = 9, 3
_MOST_TEXT = 500
_WARM_UP_SIZE = 256  # rows and columns


@dataclass(frozen=True)
class Environment:
    """Fields that all outcomes of a process have in common."""

    driver_version: str | None
    cuda_version: str | None
    torch_version: str
    triton_version: str
    python_version: str
    solkit_version: str
    platform: str
    flush: str


@dataclass(frozen=True)
class Handful:
    """Configurations of one kernel file at one shape; if there are none, the file is loaded."""

    path: str  # the kernel file
    reference: str | None  # the file with the reference, if `path` has none
    shape: Params  # sizes that override the file's defaults
    drafts: Sequence[Outcome]  # one for each configuration, with what is known before it runs
    seed: int = SEED  # of the inputs
    hopeless_ms: float | None = None  # a call that takes longer is timed once
    resident: tuple[str, ...] = ()  # tensors that L2 holds when a call begins

    @property
    def l2(self) -> L2State:
        """State of L2 when a call begins."""
        said = self.drafts[0].l2
        return "replayed" if said == "replayed" else "warm" if said == "warm" else "cold"


@dataclass(frozen=True)
class Lost:
    """The configuration called last broke the GPU's context; the process ends."""

    outcome: Outcome


class _LostError(Exception):
    """Carries a `Lost`."""


class _SpoiltError(Exception):
    """A configuration wrote to memory that the handful shares."""


def serve_descriptors(
    device: Device, environment: Mapping[str, str], connection: int, called: int
) -> None:
    """Serve, as `serve`, by descriptors of the connection and of the shared memory's file."""
    from multiprocessing.connection import Connection

    serve(Connection(connection), shared_numbers(called), device, environment)


def serve(
    connection: Connection, called: Called, device: Device, environment: Mapping[str, str]
) -> None:
    """Answer handfuls until the other end closes.

    Once it is warm it sends an `Environment`, then for each handful a list of outcomes, or a
    `Lost`. Before each call it writes the configuration's number to `called`, so that the parent
    knows which one ended the process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent ends this process
    os.environ.update(environment, CUDA_VISIBLE_DEVICES=str(device.uuid))
    with span("loading torch and Triton", "timing"):
        import triton  # noqa: F401 - loaded here rather than while the GPU is held

        from solkit.measure.timing.machine import CudaMachine  # imports torch

    def note_call(number: int) -> None:
        called[0] = number
        called[1] += 1

    timing = _Timing(note_call, CudaMachine())
    # the first handful meets the same errors, and reports them
    with span("warming up", "timing"), contextlib.suppress(Exception):
        timing.warm_up()
    gc.freeze()  # or each full collection would go through all of torch
    connection.send(timing.environment())
    while True:
        try:
            handful = connection.recv()
        except (EOFError, OSError):
            return
        try:
            count = len(handful.drafts)
            with span(f"{count} configurations" if count else "loading the file", "timing"):
                outcomes = timing.outcomes(handful)
            connection.send(outcomes)
        except _LostError as lost:
            connection.send(lost.args[0])
            os._exit(1)  # CUDA's exit handlers would fail


class _Timing:
    """Completes drafts of handfuls; `say` receives a configuration's number before each call."""

    def __init__(self, say: Callable[[int], None], machine: Machine) -> None:
        self._say, self._machine = say, machine
        self._references = ReferenceTimes(machine)
        self._loaded: dict[tuple[str, str | None], LoadedKernel] = {}

    def warm_up(self) -> None:
        """Do once, on a small product, what every handful does.

        In a new process that takes seconds: the profiler imports Inductor and attaches to the GPU,
        torch loads cuBLAS and each kernel at its first call, and Triton builds its driver. Here it
        comes before the GPU's time is counted.
        """
        import torch

        from solkit.adapters.live_triton import start_driver
        from solkit.core import default_tolerance
        from solkit.kernelfiles import Workload
        from solkit.measure.checking.inputs import copy_workload, digest_inputs, is_unchanged
        from solkit.measure.checking.tolerance import Standard

        own = torch.randn(_WARM_UP_SIZE, _WARM_UP_SIZE, device=self._machine.device)
        product = Workload((own, own), {}, torch.matmul, torch.matmul)
        digest_inputs(product)
        is_unchanged(copy_workload(product), product)
        want = product.run_reference()
        Standard(want, default_tolerance(own.dtype)).judge(product.run_kernel())
        with self._machine.conditions():
            ReferenceTimes(self._machine).time_reference("warm-up", {}, product)
        start_driver()

    def environment(self) -> Environment:
        import torch
        import triton

        from solkit.roofline.nvml import driver_version

        return Environment(
            driver_version(),
            torch.version.cuda,
            str(torch.__version__),
            triton.__version__,
            platform.python_version(),
            solkit.__version__,
            platform.platform(),
            self._machine.timers()[1],
        )

    def outcomes(self, handful: Handful) -> list[Outcome]:
        """Return all configurations' outcomes; raises `_LostError` if one broke the context."""
        try:
            return self._time_handful(handful)
        except _LostError:
            raise
        except Exception as error:  # the problem failed: its candidates are not at fault
            doing = "loading it, its inputs or its reference"
            failed = [
                self._failed_outcome(draft, error, handful.path, doing) for draft in handful.drafts
            ]
            return [replace(outcome, verdict=Verdict.NOT_MEASURED) for outcome in failed]

    def _time_handful(self, handful: Handful) -> list[Outcome]:
        from solkit.kernelfiles import load
        from solkit.kernelfiles.rounding import round_to_tf32

        file = handful.path, handful.reference
        if file not in self._loaded:
            self._loaded[file] = load(*file)
        round_to_tf32(self._loaded[file].description.problem.allows_tf32)
        every = range(len(handful.drafts))
        if not every:
            return []
        if not _shares_a_tuner():
            with contextlib.suppress(_SpoiltError):
                return self._time_together(handful, every)
        return [self._time_alone(handful, number) for number in every]  # one affects the others

    def _time_alone(self, handful: Handful, number: int) -> Outcome:
        """Return the outcome of a configuration with its own inputs."""
        try:
            return self._time_together(handful, [number])[0]
        except _SpoiltError:
            message = "it writes to memory outside its outputs"
            return replace(handful.drafts[number], verdict=Verdict.WRONG, message=message)

    def _time_together(self, handful: Handful, numbers: Sequence[int]) -> list[Outcome]:
        """Run some of a handful on the same inputs; raises `_SpoiltError` if one changes those."""
        from solkit.core import default_tolerance
        from solkit.kernelfiles.seeding import seed_everything
        from solkit.measure.checking.inputs import copy_workload, digest_inputs, is_unchanged
        from solkit.measure.checking.tolerance import Standard

        stages = Stages("timing")
        stages.begin("inputs and reference")
        loaded = self._loaded[handful.path, handful.reference]
        seed_everything(handful.seed)
        problem = loaded.workload(handful.shape, {}, self._machine.device)
        writes = bool(problem.outputs)
        want = (copy_workload(problem) if writes else problem).run_reference()
        shared = problem.with_inputs((*problem.args, *want), problem.kwargs)
        kept = copy_workload(shared)
        own = problem.tolerance or loaded.description.problem.tolerance
        standard = Standard(want, own or default_tolerance(want[0].dtype), None, problem.check)
        digest = digest_inputs(problem)
        outcomes: dict[int, Outcome] = {}
        right: list[tuple[int, Workload, float]] = []
        stages.begin("checks")
        for number in numbers:
            draft, call_ms = replace(handful.drafts[number], inputs_digest=digest), 0.0
            self._say(number)
            if not writes:
                _poison_freed(want)
            try:
                workload = loaded.with_params(problem, draft.params)
                outcomes[number], call_ms = self._check_candidate(draft, workload, standard, writes)
            except Exception as error:  # a candidate may raise anything
                outcomes[number] = self._failed_outcome(draft, error, handful.path)
            if outcomes[number].verdict is Verdict.CORRECT:
                right.append((number, workload, call_ms))
        if not is_unchanged(kept, shared):
            raise _SpoiltError
        del want, standard, shared, kept
        stages.begin("timed calls")
        for samples in (_SAMPLES, _SAMPLES_OF_LONG, 1):
            chosen = [
                (n, w) for n, w, ms in right if _sample_count(ms, handful.hopeless_ms) == samples
            ]
            self._time_correct(chosen, outcomes, samples, handful)
        if any(outcomes[number].time_ms is not None for number, *_ in right):
            self._add_reference(outcomes, handful, problem)
        stages.begin("")
        return [outcomes[number] for number in numbers]

    def _add_reference(
        self, outcomes: dict[int, Outcome], handful: Handful, problem: Workload
    ) -> None:
        """Add the time of the reference to those that have a time."""
        from solkit.measure.timing.protocols import as_deployed

        self._say(NOTHING_CALLED)
        name = handful.drafts[0].problem_sha256 or handful.path
        before = as_deployed(handful.l2, "eager"), partial(_reading, problem, handful.resident)
        reference = self._references.time_reference(name, handful.shape, problem, before)
        for number, outcome in outcomes.items():
            if reference is not None and outcome.time_ms is not None:
                outcomes[number] = replace(outcome, **reference.outcome_fields(outcome.method))

    def _check_candidate(
        self, draft: Outcome, workload: Workload, standard: Any, writes: bool
    ) -> tuple[Outcome, float]:
        """Return the outcome of comparing with the reference, and the ms of a second call."""
        from solkit.adapters.live_triton import recording
        from solkit.measure.checking.inputs import copy_workload

        called = copy_workload(workload) if writes else workload
        start = time.perf_counter()
        with recording() as launches:
            got = called.run_kernel()
            self._machine.synchronize()
        first_call_s = time.perf_counter() - start
        comparison = standard.judge(got)
        outcome = replace(
            draft,
            verdict=Verdict.WRONG if comparison.errors else Verdict.CORRECT,
            message=comparison.errors[0][:_MOST_TEXT] if comparison.errors else None,
            first_call_s=first_call_s,
            max_error=comparison.max_error,
            dtypes=_tensor_dtypes(called, got),
            live_launches=tuple(map(live_launch, launches)),
        )
        del got
        if comparison.errors:
            return outcome, 0.0
        start = time.perf_counter()
        called.run_kernel()
        self._machine.synchronize()
        return outcome, 1e3 * (time.perf_counter() - start)

    def _failed_outcome(
        self, draft: Outcome, error: Exception, path: str, doing: str = "running it"
    ) -> Outcome:
        """Return the outcome with its failure; raises `_LostError` if that broke the context."""
        from solkit.measure.checking.faults import explain_error, verdict_of

        is_ours = isinstance(error, WorkerError) or is_machine_fault(str(error))
        verdict = Verdict.NOT_MEASURED if is_ours else verdict_of(error)
        message = explain_error(error, doing, path)[0][:_MOST_TEXT]
        outcome = replace(draft, verdict=verdict, message=message)
        try:
            self._machine.synchronize()
        except RuntimeError:
            raise _LostError(Lost(outcome)) from error
        return outcome

    def _time_correct(
        self,
        chosen: Sequence[tuple[int, Workload]],
        outcomes: dict[int, Outcome],
        samples: int,
        handful: Handful,
    ) -> None:
        """Time configurations in turns; if that fails, each on its own.

        One that fails then has no time, and keeps its other fields.
        """
        try:
            outcomes.update(self._time_in_turns(chosen, outcomes, samples, handful))
            return
        except Exception as error:  # a candidate, or a timer, may raise anything
            number = chosen[0][0]
            failed = self._failed_outcome(outcomes[number], error, handful.path, "timing it")
        if len(chosen) > 1:  # any of them may be at fault, or none
            for pair in chosen:
                self._time_correct([pair], outcomes, samples, handful)
        else:
            outcomes[number] = failed

    def _time_in_turns(
        self,
        chosen: Sequence[tuple[int, Workload]],
        outcomes: Mapping[int, Outcome],
        samples: int,
        handful: Handful,
    ) -> dict[int, Outcome]:
        """Time all of them; those delayed by a stalled host are timed again."""
        timed = self._time_subjects(chosen, outcomes, samples, handful)
        stalled = [(number, w) for number, w in chosen if _host_stalled(timed[number])]
        for number, again in self._time_subjects(stalled, timed, samples, handful).items():
            if (again.time_ms or 0.0) < (timed[number].time_ms or 0.0):
                timed[number] = again
        return timed

    def _time_subjects(
        self,
        chosen: Sequence[tuple[int, Workload]],
        outcomes: Mapping[int, Outcome],
        samples: int,
        handful: Handful,
    ) -> dict[int, Outcome]:
        """Time all of them by the first timer that works; `WorkerError` if none does."""
        from solkit.measure.timing import sampling
        from solkit.measure.timing.protocols import as_deployed

        if not chosen:
            return {}
        launched, calls = self._calls_as_launched(chosen, handful)
        protocol = as_deployed(handful.l2, launched)
        subjects = [
            sampling.Subject(
                *(str(n), partial(self._prepare_call, n, calls[n])),
                partial(_reading, w, handful.resident),
            )
            for n, w in chosen
        ]
        # each was called twice just now
        plan = sampling.SamplingPlan(warmup=1, minimum=samples, maximum=samples)

        def taken(timer: sampling.Timer) -> tuple[tuple[Series, ...], dict[str, Any]]:
            with self._machine.conditions() as conditions:
                sides = sampling.sides_in_turns(timer, *subjects)
                series = sampling.sample_sides(sides, plan, random.Random(SEED))
            seen = conditions.conditions_since()
            how = {"warmup_calls": plan.warmup, "method": timer.method}
            how |= {"launched": launched, "protocol": protocol.name, "flush": flush}
            return series, {**how, "clock_mhz": seen.sm_clock_mhz, **condition_fields(seen)}

        timers, _ = self._machine.timers(protocol)  # new: they learn the host's time per call
        flush = _flush_words(handful)
        (every, how), _notes = sampling.by_first_that_works(timers, taken)
        return {
            number: replace(outcomes[number], **how, **_time_fields(series))
            for (number, _), series in zip(chosen, every, strict=True)
        }

    def _prepare_call(self, number: int, call: Callable[[], Any]) -> Callable[[], Any]:
        self._say(number)
        return call

    def _calls_as_launched(
        self, chosen: Sequence[tuple[int, Workload]], handful: Handful
    ) -> tuple[str, dict[int, Callable[[], Any]]]:
        """Return calls that replay graphs, if these are wanted and all can be captured."""
        from solkit.measure.timing.activities import ActivityError

        eager = {n: w.candidate_call() for n, w in chosen if w.kernel}
        if handful.drafts[0].launched != "graph":
            return "eager", dict(eager)
        graphs: dict[int, Callable[[], Any]] = {}
        for number, call in eager.items():
            self._say(number)
            try:
                graphs[number] = self._machine.capture_graph(call)
            except ActivityError:  # it allocates by itself, say: its program captured more around
                return "eager", dict(eager)
        return "graph", graphs


def _reading(workload: Workload, resident: Sequence[str]) -> Callable[[], None]:
    """Return what reads some inputs, so that L2 holds them."""
    named = dict(zip(workload.names(), workload.tensors(), strict=True))
    tensors = [named[name] for name in resident if name in named]

    def read() -> None:
        for tensor in tensors:
            _read_tensor(tensor)

    return read


def _read_tensor(tensor: torch.Tensor) -> None:
    """Read a tensor's elements, whatever their type and layout, on its device."""
    import torch

    plain = tensor.conj() if tensor.is_conj() else tensor  # the memory as it is
    real = torch.view_as_real(plain) if plain.dtype.is_complex else plain
    words = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[real.element_size()]
    real.view(words).sum(dtype=torch.int64)


def _flush_words(handful: Handful) -> str | None:
    """Return how L2 is prepared, in words."""
    flush = handful.drafts[0].flush
    if not handful.resident:
        return flush
    named = ", ".join(handful.resident)
    return f"{flush}; then a read of {named}: what the program's launches before leave in L2"


def _shares_a_tuner() -> bool:
    """Tell whether a file's configurations may share a tuner that keeps one kernel for all.

    A call of `triton.autotune` gets its own list back each time (`with_configs_kept`). Tuners of
    other languages keep what they built, so they get one configuration after the other.
    """
    from solkit.adapters.cutile_configs import uses_cutile_search
    from solkit.adapters.helion_configs import uses_helion
    from solkit.adapters.tilelang_configs import uses_tilelang

    return uses_helion() or uses_tilelang() or uses_cutile_search()


def _sample_count(call_ms: float, hopeless_ms: float | None) -> int:
    """Return the number of samples of a call that takes so long by the host's clock."""
    if call_ms <= _SHORT_MS:
        return _SAMPLES
    return 1 if hopeless_ms is not None and call_ms > hopeless_ms else _SAMPLES_OF_LONG


def _poison_freed(outputs: Sequence[torch.Tensor]) -> None:
    """Leave NaN where such outputs will be allocated: correct ones may lie there."""
    import torch

    from solkit.measure.checking.inputs import poison_tensors

    with contextlib.suppress(torch.OutOfMemoryError):  # then the kernel needs the memory
        poison_tensors([torch.empty_like(output) for output in outputs if output.numel()])


def _tensor_dtypes(workload: Workload, got: Sequence[Any]) -> tuple[str, ...]:
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((workload.args, dict(workload.kwargs)))
    tensors = [leaf for leaf in (*leaves, *got) if isinstance(leaf, torch.Tensor)]
    return tuple(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)


def _host_stalled(timed: Outcome) -> bool:
    """Tell whether the GPU waited between launches, for the host or because of the call itself."""
    if timed.time_ms is None or timed.kernel_sum_ms is None:
        return False
    launches = sum(launch.count for launch in timed.live_launches)
    return timed.time_ms - timed.kernel_sum_ms > GAP_MS * max(launches - 1, 1)


def _time_fields(series: Series) -> dict[str, Any]:
    from solkit.measure.timing.median_interval import median_interval

    spans = median_interval(series.spans_ms)
    return {
        "samples_ms": tuple(series.spans_ms),
        "time_ms": spans.median,
        "low_ms": spans.low,
        "high_ms": spans.high,
        "kernel_sum_ms": series.kernel_sum_ms,
    }


# ------------ The time of the reference, which the timing process takes once per problem and shape


Before = tuple["TimingProtocol", Callable[[], Callable[[], Any]]]

_LONGEST_MS = 50.0  # a slower reference would cost more than the kernels that it is compared with
_REFERENCE_SAMPLES = 5


@dataclass(frozen=True)
class ReferenceTime:
    """Time of a call of a reference."""

    samples_ms: tuple[float, ...]
    median_ms: float
    method: str  # of timing, as in `Outcome`

    def outcome_fields(self, method: str | None) -> dict[str, Any]:
        """Return fields of an `Outcome` that was timed by a method; none if it is another one."""
        if method != self.method:
            return {}
        return {"reference_ms": self.median_ms, "reference_samples_ms": self.samples_ms}


class ReferenceTimes:
    """Times each reference once per shape, after a flush of L2, by the first timer that works."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[str, str], ReferenceTime | None] = {}

    def time_reference(
        self, name: str, shape: Params, problem: Workload, before: Before | None = None
    ) -> ReferenceTime | None:
        """Return the time of the reference of that name at a shape; it ran before on these inputs.

        `before` is the protocol, and what makes L2 as it says. ``None`` if a call takes over
        `_LONGEST_MS`, or it cannot be timed.
        """
        key = name, canonical(shape)
        if key not in self._known:
            try:
                self._known[key] = self._time_once(problem, before)
            except Exception:  # it, or a timer, may raise anything: its kernels are still timed
                self._known[key] = None
        return self._known[key]

    def _time_once(self, problem: Workload, before: Before | None) -> ReferenceTime | None:
        from solkit.measure.checking.inputs import copy_workload
        from solkit.measure.timing import sampling
        from solkit.measure.timing.median_interval import median_interval
        from solkit.measure.timing.protocols import PROTOCOLS

        own = copy_workload(problem) if problem.outputs else problem
        start = time.perf_counter()
        own.run_reference()
        self._machine.synchronize()
        if 1e3 * (time.perf_counter() - start) > _LONGEST_MS:
            return None
        protocol, warming = before or (PROTOCOLS["cold"], None)
        subject = sampling.Subject("reference", lambda: own.run_reference, warming)
        plan = sampling.SamplingPlan(
            warmup=1, minimum=_REFERENCE_SAMPLES, maximum=_REFERENCE_SAMPLES
        )

        def taken(timer: sampling.Timer) -> ReferenceTime:
            sides = sampling.sides_in_turns(timer, subject)
            (series,) = sampling.sample_sides(sides, plan, random.Random(0))
            median_ms = median_interval(series.spans_ms).median
            return ReferenceTime(tuple(series.spans_ms), median_ms, timer.method)

        return sampling.by_first_that_works(self._machine.timers(protocol)[0], taken)[0]
