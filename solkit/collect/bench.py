"""The process that has the GPU: checks configurations and times them, a handful at once.

A handful are configurations of one kernel at one shape. They get the same inputs; each is called,
and held against the reference; those that are right are then timed in turns, in random order, by
CUPTI's activity records as everywhere in SolKit, L2 flushed before each call by reading a buffer.
After the checks inputs and reference results are held against a copy: where one of the handful
wrote to them, each is tried again on its own, so that it spoils no other. Where timing them in
turns fails, each is timed on its own, so that only what fails then has no time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import random
import signal
import time
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import solkit
from solkit.collect.choice import Params
from solkit.collect.faults import is_machine_fault
from solkit.core import KernelAnalysis, Verdict

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import torch

    from solkit.kernelfiles import LoadedKernel, Workload
    from solkit.measure.machine import Machine
    from solkit.measure.sampling import Series

__all__ = [
    "GAP_MS",
    "NOTHING_CALLED",
    "SEED",
    "Called",
    "Environment",
    "Handful",
    "Lost",
    "Tried",
    "serve",
]

SEED = 0
"""Of inputs, and of the order of timing."""

NOTHING_CALLED = -1

GAP_MS = 5e-3
"""More between two launches is no plain gap: on an H100 twice what 95 % of them are apart."""

Called = MutableSequence[int]
"""Memory that both processes have: the number of the configuration called last, and how many calls
there were."""

_SHORT_MS = 5.0  # a call that takes longer is timed fewer times
_SAMPLES, _SAMPLES_OF_LONG = 9, 3
_MOST_TEXT = 500


@dataclass(frozen=True)
class Environment:
    """What holds for all rows of a process: fields of `TimedConfiguration` of the same names."""

    device_name: str
    device_uuid: str
    driver_version: str | None
    cuda_version: str | None
    torch_version: str
    triton_version: str
    python_version: str
    solkit_version: str
    flush: str


@dataclass(frozen=True)
class Handful:
    """What is asked for at once: configurations of one kernel file at one shape."""

    path: str
    shape: Params
    choices: Sequence[Params]


@dataclass(frozen=True)
class Tried:
    """What became of a configuration.

    Attributes:
        verdict: what it is, ``correct`` where it was timed, ``not_measured`` where what failed is
            not its fault.
        message: why it failed.
        first_call_s: of the first call, by the host's clock.
        max_error: largest deviation from the reference.
        dtypes: of inputs and outputs.
        launches: what a call launches.
        warmup_calls: untimed ones just before those that were timed.
        samples_ms, kernel_sum_ms, low_ms, high_ms, time_ms, method: of the timing.
        conditions: NVML's figures meanwhile: fields of `Conditions`.
    """

    verdict: Verdict
    message: str | None = None
    first_call_s: float | None = None
    max_error: float | None = None
    dtypes: tuple[str, ...] = ()
    launches: tuple[KernelAnalysis, ...] = ()
    warmup_calls: int | None = None
    samples_ms: tuple[float, ...] = ()
    time_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    kernel_sum_ms: float | None = None
    method: str | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lost:
    """What was called last has broken the GPU's context; the process ends."""

    tried: Tried


class _LostError(Exception):
    """Carries a `Lost`."""


class _SpoiltError(Exception):
    """What configurations share is no longer what it was."""


def serve(
    connection: Connection, called: Called, uuid: str, environment: Mapping[str, str]
) -> None:
    """Answer handfuls until the other end hangs up.

    First an `Environment` is sent; of each handful, a list with a `Tried` for each, or a `Lost`.
    The number of a configuration is in `called` before each call of it, so that it is known should
    it end the process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent's to end this process
    os.environ.update(environment, CUDA_VISIBLE_DEVICES=uuid)
    from solkit.measure.machine import CudaMachine  # brings torch

    def say(number: int) -> None:
        called[0] = number
        called[1] += 1

    bench = _Bench(say, CudaMachine())
    gc.freeze()  # or each full collection would go through all that torch keeps
    connection.send(bench.environment())
    while True:
        try:
            handful = connection.recv()
        except (EOFError, OSError):
            return
        try:
            connection.send(bench.tried(handful))
        except _LostError as lost:
            connection.send(lost.args[0])
            os._exit(1)  # no exit handler of CUDA's would end well


class _Bench:
    """The course of a handful.

    Args:
        say: told the number of a configuration before it is called.
        machine: what to run on.
    """

    def __init__(self, say: Callable[[int], None], machine: Machine) -> None:
        self._say, self._machine = say, machine
        self._loaded: dict[str, LoadedKernel] = {}

    def environment(self) -> Environment:
        import torch
        import triton

        from solkit.roofline.nvml import driver_version

        return Environment(
            torch.cuda.get_device_name(),
            f"GPU-{torch.cuda.get_device_properties().uuid}",
            driver_version(),
            torch.version.cuda,
            str(torch.__version__),
            triton.__version__,
            platform.python_version(),
            solkit.__version__,
            self._machine.timers()[1],
        )

    def tried(self, handful: Handful) -> list[Tried]:
        """What became of each configuration.

        Raises:
            _LostError: one of them broke the context.
        """
        try:
            return self._tried(handful)
        except _LostError:
            raise
        except Exception as error:  # of the problem, which tells nothing of its candidates
            failed = self._failed(error, handful.path, "loading it, its inputs or its reference")
            return [replace(failed, verdict=Verdict.NOT_MEASURED)] * len(handful.choices)

    def _tried(self, handful: Handful) -> list[Tried]:
        from solkit.kernelfiles import load

        if handful.path not in self._loaded:
            self._loaded[handful.path] = load(handful.path)
        every = range(len(handful.choices))
        with contextlib.suppress(_SpoiltError):
            return self._together(handful, every)
        return [self._alone(handful, number) for number in every]  # one of them spoils the others

    def _alone(self, handful: Handful, number: int) -> Tried:
        """A configuration with inputs of its own."""
        try:
            return self._together(handful, [number])[0]
        except _SpoiltError:
            return Tried(Verdict.WRONG, "it writes to memory that is none of its outputs")

    def _together(self, handful: Handful, numbers: Sequence[int]) -> list[Tried]:
        """Some of a handful on the same inputs.

        Raises:
            _SpoiltError: one of them changed the inputs, or what the reference gives.
        """
        from solkit.measure.compare import Standard, default_tolerance
        from solkit.measure.inputs import fresh, is_unchanged, seed_everything

        loaded = self._loaded[handful.path]
        seed_everything(SEED)
        problem = loaded.workload(handful.shape, {}, self._machine.device)
        writes = bool(problem.outputs)
        want = (fresh(problem) if writes else problem).run_reference()
        shared = problem.with_inputs((*problem.args, *want), problem.kwargs)
        kept = fresh(shared)
        tolerance = loaded.description.problem.tolerance or default_tolerance(want[0].dtype)
        standard = Standard(want, tolerance, None, problem.check)
        found: dict[int, Tried] = {}
        right: list[tuple[int, Workload, float]] = []
        for number in numbers:
            self._say(number)
            if not writes:
                _spoil(want)
            try:
                workload = loaded.with_params(problem, handful.choices[number])
                tried, call_ms = self._checked(workload, standard, writes)
            except Exception as error:  # whatever a candidate may raise
                tried, call_ms = self._failed(error, handful.path), 0.0
            found[number] = tried
            if tried.verdict is Verdict.CORRECT:
                right.append((number, workload, call_ms))
        if not is_unchanged(kept, shared):
            raise _SpoiltError
        del want, standard, shared, kept
        for long in (False, True):
            chosen = [(n, w) for n, w, ms in right if (ms > _SHORT_MS) is long]
            self._time(chosen, found, _SAMPLES_OF_LONG if long else _SAMPLES, handful.path)
        return [found[number] for number in numbers]

    def _checked(self, workload: Workload, standard: Any, writes: bool) -> tuple[Tried, float]:
        """A configuration held against the reference, and how long a second call took."""
        from solkit.adapters.live_triton import recording
        from solkit.measure.inputs import fresh

        called = fresh(workload) if writes else workload
        start = time.perf_counter()
        with recording() as launches:
            got = called.run_kernel()
            self._machine.synchronize()
        first_call_s = time.perf_counter() - start
        comparison = standard.judge(got)
        told = Tried(
            Verdict.WRONG if comparison.errors else Verdict.CORRECT,
            comparison.errors[0][:_MOST_TEXT] if comparison.errors else None,
            first_call_s,
            comparison.max_error,
            _dtypes(called, got),
            tuple(launches),
        )
        del got
        if comparison.errors:
            return told, 0.0
        start = time.perf_counter()
        called.run_kernel()
        self._machine.synchronize()
        return told, 1e3 * (time.perf_counter() - start)

    def _failed(self, error: Exception, path: str, doing: str = "running it") -> Tried:
        """What a failure is; raises `_LostError` where it broke the context."""
        from solkit.measure.activities import ActivityError
        from solkit.measure.faults import explain, verdict_of

        is_ours = isinstance(error, ActivityError) or is_machine_fault(str(error))
        verdict = Verdict.NOT_MEASURED if is_ours else verdict_of(error)
        told = Tried(verdict, explain(error, doing, path)[0][:_MOST_TEXT])
        try:
            self._machine.synchronize()
        except RuntimeError:
            raise _LostError(Lost(told)) from error
        return told

    def _time(
        self,
        chosen: Sequence[tuple[int, Workload]],
        found: dict[int, Tried],
        samples: int,
        path: str,
    ) -> None:
        """Time configurations in turns; where that fails, each on its own.

        One that fails then has no time, and keeps what else is known of it.
        """
        try:
            found.update(self._in_turns(chosen, found, samples))
            return
        except Exception as error:  # whatever a candidate, or a timer, may raise
            failed = self._failed(error, path, "timing it")
        if len(chosen) > 1:  # it may be the fault of any, or of none
            for each in chosen:
                self._time([each], found, samples, path)
            return
        ((number, _),) = chosen
        found[number] = replace(found[number], verdict=failed.verdict, message=failed.message)

    def _in_turns(
        self, chosen: Sequence[tuple[int, Workload]], found: Mapping[int, Tried], samples: int
    ) -> dict[int, Tried]:
        """Each with its times; those whose time holds gaps of a stalled host are timed again."""
        timed = self._timed(chosen, found, samples)
        stalled = [(number, w) for number, w in chosen if _has_gaps(timed[number])]
        for number, again in self._timed(stalled, timed, samples).items():
            if (again.time_ms or 0.0) < (timed[number].time_ms or 0.0):
                timed[number] = again
        return timed

    def _timed(
        self, chosen: Sequence[tuple[int, Workload]], found: Mapping[int, Tried], samples: int
    ) -> dict[int, Tried]:
        """Each with its times, by the first timer that works.

        Raises:
            ActivityError: none does.
        """
        from solkit.measure.activities import ActivityError
        from solkit.measure.sampling import Plan, Subject, in_turns, sample

        if not chosen:
            return {}
        subjects = [Subject(str(number), partial(self._call, number, w)) for number, w in chosen]
        plan = Plan(warmup=1, minimum=samples, maximum=samples)  # each was called twice just now
        timers, _ = self._machine.timers()  # anew: they learn how long the host takes over a call
        reasons = []
        for timer in timers:
            try:
                with self._machine.conditions() as conditions:
                    taken = sample(in_turns(timer, *subjects), plan, random.Random(SEED))
            except ActivityError as error:
                reasons.append(str(error))
                continue
            how: dict[str, Any] = {"warmup_calls": plan.warmup, "method": timer.method}
            seen = conditions.since().model_dump()
            return {
                number: replace(found[number], **how, **_times(series), conditions=seen)
                for (number, _), series in zip(chosen, taken, strict=True)
            }
        raise ActivityError("no way of timing works: " + "; ".join(reasons))

    def _call(self, number: int, workload: Workload) -> Callable[[], Any]:
        self._say(number)
        assert workload.kernel is not None
        return partial(workload.kernel, *workload.args, **workload.kwargs)


def _spoil(outputs: Sequence[torch.Tensor]) -> None:
    """Leave NaN where outputs like these will be made: the last right ones may lie there."""
    import torch

    from solkit.measure.inputs import poison

    with contextlib.suppress(torch.OutOfMemoryError):  # then the kernel needs it more
        poison([torch.empty_like(output) for output in outputs if output.numel()])


def _dtypes(workload: Workload, got: Sequence[Any]) -> tuple[str, ...]:
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((workload.args, dict(workload.kwargs)))
    tensors = [leaf for leaf in (*leaves, *got) if isinstance(leaf, torch.Tensor)]
    return tuple(str(tensor.dtype).removeprefix("torch.") for tensor in tensors)


def _has_gaps(timed: Tried) -> bool:
    """Whether the GPU waited between the launches of a call: for the host, or the call does so."""
    if timed.time_ms is None or timed.kernel_sum_ms is None:
        return False
    launches = sum(each.launch.count for each in timed.launches)
    return timed.time_ms - timed.kernel_sum_ms > GAP_MS * max(launches - 1, 1)


def _times(series: Series) -> dict[str, Any]:
    from solkit.measure.statistics import median_interval

    spans = median_interval(series.spans_ms)
    sums = [t.kernel_sum_ms for t in series.times if t.kernel_sum_ms is not None]
    return {
        "samples_ms": tuple(series.spans_ms),
        "time_ms": spans.median,
        "low_ms": spans.low,
        "high_ms": spans.high,
        "kernel_sum_ms": median_interval(sums).median if sums else None,
    }
