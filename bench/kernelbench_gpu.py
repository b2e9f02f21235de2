"""Times one KernelBench problem on the GPU: what the workers of `kernelbench_times` run.

Many workers share one GPU, and nothing may run beside a call that is being timed. So whoever
touches the GPU holds the `Turn`: making inputs, the first call of compiled code (Inductor tries
its configurations then), Inductor's own benchmarks, and timing. `torch.compile`'s work on the CPU,
which takes longest, goes on meanwhile in the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import math
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from kernelbench_suite import OK, SAME_AS_DEFAULT, Failure, Job, Row
from torch.utils._python_dispatch import TorchDispatchMode

from solkit import kernelfiles
from solkit.core import Verdict
from solkit.kernelfiles import Workload
from solkit.measure.activities import ActivityError, CallTime
from solkit.measure.compare import compare
from solkit.measure.faults import verdict_of
from solkit.measure.inputs import seed_everything
from solkit.measure.machine import CudaMachine, Machine
from solkit.measure.sampling import Plan, Series, Subject, in_turns, sample
from solkit.measure.statistics import median_interval
from solkit.roofline.nvml import driver_version

__all__ = ["Bench", "Turn", "plan_for", "relative_change", "work"]

_SEED = 0
_GPU_S = 0.15  # of samples per variant
_FREE_SHARE = 0.5  # of the GPU's memory, before another problem's inputs are made
_WAIT_FOR_MEMORY_S = 60.0
_MATRIX_OPS = frozenset("mm addmm bmm baddbmm addbmm mv addmv dot".split())
_CHUNK = 1 << 24
_MAX_TEXT = 500

_KINDS, _PRECISIONS = ("eager", "compiled"), ("default", "tf32")

Call = Callable[[], Any]


class Turn:
    """The right to use the GPU: one process has it at a time, which may take it again and again.

    Args:
        path: a file to lock; the system lets go of it for a process that dies.
        synchronize: waits for the GPU, before the turn is given up.
    """

    def __init__(self, path: Path, synchronize: Callable[[], None]) -> None:
        self._file = path.open("w")
        self._synchronize = synchronize
        self._depth = 0

    def __enter__(self) -> None:
        if self._depth == 0:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        try:
            if self._depth == 1:
                self._synchronize()
        finally:
            self._depth -= 1
            if self._depth == 0:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called with the turn held."""

        def held(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return held


class _OpNames(TorchDispatchMode):
    """Notes which ATen ops are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

    @property
    def has_matrix_product(self) -> bool:
        """Whether any is one whose precision ``matmul.allow_tf32`` decides."""
        others = ("attention", "rnn", "lstm", "gru")
        return any(n in _MATRIX_OPS or any(o in n for o in others) for n in self.names)


class Bench:
    """A worker's means of timing, kept from problem to problem.

    Args:
        machine: what to time on.
        turn: see there.
        backend: compiles a graph, as ``torch.compile`` takes it.
        free_bytes: memory free on the GPU, and all of it.
    """

    def __init__(
        self,
        machine: Machine,
        turn: Turn,
        backend: Callable[..., Any],
        free_bytes: Callable[[], tuple[int, int]],
    ) -> None:
        self._machine, self._turn, self._free_bytes = machine, turn, free_bytes
        self._backend = lambda *args, **kwargs: turn.during(backend(*args, **kwargs))

    def rows(self, job: Job) -> Iterator[Row]:
        """One row per variant of the job.

        Raises:
            Exception: the problem itself failed, or memory ran out on a GPU that is shared.
        """
        loaded = kernelfiles.load(job.problem.path)
        with self._room(job.alone):
            workload = loaded.workload({}, {}, self._machine.device)
            facts = self._facts(workload)
        wanted = {v for v in job.variants if facts.has_matrix_product or not v.endswith("_tf32")}
        torch._dynamo.reset()
        compiled = self._compile(workload, wanted, job)
        with self._turn:
            yield from self._timed(workload, wanted, compiled, facts)
        for variant in job.variants:
            if variant not in wanted:
                yield {"variant": variant, "status": SAME_AS_DEFAULT, **_facts_row(facts)}

    @contextlib.contextmanager
    def _room(self, alone: bool) -> Iterator[None]:
        """The turn, at a moment at which others leave enough memory."""
        patience_ends = time.monotonic() + _WAIT_FOR_MEMORY_S
        while True:
            with self._turn:
                free, total = self._free_bytes()
                late = time.monotonic() > patience_ends
                if alone or late or free >= _FREE_SHARE * total:
                    yield
                    return
            time.sleep(0.1)

    def _facts(self, workload: Workload) -> _Facts:
        """What one can see of a problem by calling it."""
        with _precision("default"):
            with _OpNames() as ops:
                _outputs(workload)
            self._machine.synchronize()
            start = time.perf_counter()
            want = _outputs(workload)
            self._machine.synchronize()
            eager_s = time.perf_counter() - start
            changed = _outputs(_on_other_inputs(workload))
        facts = _Facts(
            eager_s=eager_s,
            has_matrix_product=ops.has_matrix_product,
            input_change=relative_change(changed, want),
            output_dtype=str(want[0].dtype).removeprefix("torch."),
        )
        del want, changed
        self._release()
        return facts

    def _compile(self, workload: Workload, wanted: set[str], job: Job) -> dict[str, _Compiled]:
        """By precision, the compiled reference."""
        found = {}
        for precision in _PRECISIONS:
            if _variant("compiled", precision) not in wanted:
                continue
            compiled = (
                self._compiled(workload, precision)
                if job.compile_failure is None
                else _Compiled(job.compile_failure)
            )
            short = isinstance(compiled.call, Failure) and (
                compiled.call.verdict is Verdict.OUT_OF_MEMORY
            )
            if short and not job.alone:
                raise torch.OutOfMemoryError(compiled.call.message)
            found[precision] = compiled
        self._release()
        return found

    def _compiled(self, workload: Workload, precision: str) -> _Compiled:
        assert workload.reference is not None
        compiled = torch.compile(workload.reference.model, backend=self._backend)  # type: ignore[attr-defined]

        def call() -> Any:
            with torch.no_grad():
                return compiled(*workload.args)

        start = time.perf_counter()
        try:
            with _precision(precision):
                seed_everything(_SEED)
                call()
        except Exception as error:  # what Dynamo and Inductor may raise is not known
            verdict = verdict_of(
                getattr(error, "inner_exception", error)
            )  # Dynamo wraps a backend's
            if verdict is Verdict.CRASHED:
                verdict = Verdict.DOES_NOT_COMPILE
            return _Compiled(Failure(verdict, _text(error)))
        return _Compiled(call, time.perf_counter() - start)

    def _timed(
        self, workload: Workload, wanted: set[str], compiled: Mapping[str, _Compiled], facts: _Facts
    ) -> Iterator[Row]:
        """Rows of what can be called, and of what could not be compiled."""

        def eager() -> Any:
            assert workload.reference is not None
            return workload.reference(*workload.args)

        calls: dict[str, Call | Failure] = {}
        for variant in wanted:
            kind, precision = _kind_and_precision(variant)
            calls[variant] = eager if kind == "eager" else compiled[precision].call
        errors = self._errors(workload, calls)
        for precision in _PRECISIONS:
            pair = {k: calls[v] for k in _KINDS if (v := _variant(k, precision)) in calls}
            for kind, row in self._pair(pair, precision, plan_for(facts.eager_s)):
                variant = _variant(kind, precision)
                row |= {"variant": variant, **_facts_row(facts), **errors.get(variant, {})}
                if kind == "compiled" and row["status"] == OK:
                    row["compile_s"] = round(compiled[precision].seconds, 3)
                yield row

    def _errors(self, workload: Workload, calls: Mapping[str, Call | Failure]) -> dict[str, Row]:
        """How far each variant is from eager mode at the default precision."""
        with _precision("default"):
            want = _outputs(workload)
        found = {}
        for variant, call in calls.items():
            if not isinstance(call, Failure):
                with _precision(_kind_and_precision(variant)[1]):
                    found[variant] = _error_row(call, want)
        return found

    def _pair(
        self, calls: Mapping[str, Call | Failure], precision: str, plan: Plan
    ) -> Iterator[tuple[str, Row]]:
        """Eager and compiled, timed in turns; one alone is timed in turns with itself."""
        ready = {kind: call for kind, call in calls.items() if not isinstance(call, Failure)}
        if ready:
            first, last = next(iter(ready.values())), list(ready.values())[-1]
            with _precision(precision):
                compiled, eager, timing = self._sample(last, first, plan)
        for kind, call in calls.items():
            if isinstance(call, Failure):
                yield kind, call.row()
            else:
                series = compiled if kind == "compiled" else eager
                yield kind, {"status": OK, **_times_row(series.times), **timing}

    def _sample(self, candidate: Call, reference: Call, plan: Plan) -> tuple[Series, Series, Row]:
        subjects = Subject("candidate", lambda: candidate), Subject("reference", lambda: reference)
        failures = []
        timers, _ = self._machine.timers()  # anew: they learn how long the host takes over a call
        for timer in timers:
            try:
                with self._machine.conditions() as conditions:
                    sides = in_turns(timer, *subjects)
                    series = sample(sides, plan, random.Random(_SEED))
            except ActivityError as error:
                failures.append(str(error))
                continue
            row = {
                "method": timer.method,
                "sm_clock_mhz": conditions.since().sm_clock_mhz,
                "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
                "conv_tf32": torch.backends.cudnn.allow_tf32,
            }
            return *series, row
        raise RuntimeError("no way of timing works: " + "; ".join(failures))

    def clear(self) -> None:
        """Let go of a problem's memory."""
        torch._dynamo.reset()
        gc.collect()
        self._release()

    def _release(self) -> None:
        """Give memory that is not in use back to the GPU, for the other workers."""
        if self._machine.device == "cuda":
            with self._turn:
                torch.cuda.empty_cache()


@dataclass(frozen=True)
class _Facts:
    eager_s: float
    has_matrix_product: bool
    input_change: float
    output_dtype: str


@dataclass(frozen=True)
class _Compiled:
    """A compiled reference, or why there is none, and how long it took with its first call."""

    call: Call | Failure
    seconds: float = 0.0


def plan_for(eager_s: float) -> Plan:
    """Few samples of what is slow: about `_GPU_S` seconds per variant, or a tight interval.

    Six samples are the fewest whose range is a 95 % interval of the median.
    """
    affordable = int(_GPU_S / max(eager_s, 1e-6))
    minimum = min(20, max(6, affordable))
    warmup = 3 if eager_s < 0.1 else 1
    return Plan(warmup, minimum, max(minimum, min(200, affordable)), 0.01, budget_s=0.4)


def relative_change(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> float:
    """Largest ``|got - want|`` over largest ``|want|``, over all outputs; NaN where one is."""
    difference = scale = 0.0
    for mine, theirs in zip(got, want, strict=True):
        if mine.shape != theirs.shape:
            return math.inf
        mine, theirs = mine.reshape(-1), theirs.reshape(-1)
        for start in range(0, theirs.numel(), _CHUNK):
            wide = theirs[start : start + _CHUNK].double()
            other = mine[start : start + _CHUNK].double()
            difference = _larger(difference, float((other - wide).abs().max()))
            scale = _larger(scale, float(wide.abs().max()))
    return difference / scale if scale else difference


def _larger(left: float, right: float) -> float:
    return math.nan if math.isnan(left) or math.isnan(right) else max(left, right)


@contextlib.contextmanager
def _precision(name: str) -> Iterator[None]:
    """PyTorch's own settings, or tf32 allowed in matrix products as well."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    if name == "tf32":
        matmul.allow_tf32 = cudnn.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def _variant(kind: str, precision: str) -> str:
    return kind if precision == "default" else f"{kind}_{precision}"


def _kind_and_precision(variant: str) -> tuple[str, str]:
    kind, _, precision = variant.partition("_")
    return kind, precision or "default"


def _outputs(workload: Workload) -> list[torch.Tensor]:
    seed_everything(_SEED)  # dropout draws the same each time
    return workload.run_reference()


def _on_other_inputs(workload: Workload) -> Workload:
    """The same model on inputs that are drawn anew."""
    model = workload.reference.model  # type: ignore[union-attr]
    device = next(a.device for a in workload.args if isinstance(a, torch.Tensor))
    seed_everything(_SEED + 1)
    with torch.device(device):
        args = type(model).forward.__globals__["get_inputs"]()
    moved = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
    return workload.with_inputs(tuple(moved), {})


def _error_row(call: Call, want: list[torch.Tensor]) -> Row:
    seed_everything(_SEED)
    got = Workload((), {}, call, None).run_reference()
    comparison = compare(got, want)
    return {
        "max_error": comparison.max_error,
        "relative_error": _finite(relative_change(got, want)),
        "within_tolerance": not comparison.errors,
    }


def _times_row(times: Sequence[CallTime]) -> Row:
    interval = median_interval([t.span_ms for t in times])
    sums = [t.kernel_sum_ms for t in times if t.kernel_sum_ms is not None]
    return {
        "median_ms": interval.median,
        "low_ms": interval.low,
        "high_ms": interval.high,
        "kernel_sum_ms": median_interval(sums).median if sums else None,
        "samples": len(times),
    }


def _facts_row(facts: _Facts) -> Row:
    return {"input_change": _finite(facts.input_change), "output_dtype": facts.output_dtype}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()}"[:_MAX_TEXT]


# -------------------------------------------------------------------------------- the process


def work(pipe: Connection, lock: Path) -> None:
    """Answer jobs until the pipe closes: ``ready`` first, then ``row`` and ``done`` for each.

    A job that fails ends with ``failed`` or, where it may have spoiled the process, ``ended``.
    """
    machine = CudaMachine()
    turn = Turn(lock, machine.synchronize)
    _take_turns_benchmarking(turn)
    _warm_up(machine)
    bench = Bench(machine, turn, torch._dynamo.lookup_backend("inductor"), torch.cuda.mem_get_info)
    pipe.send(("ready", environment(machine)))
    with contextlib.suppress(EOFError):
        while True:
            if not _answer(bench, pipe, pipe.recv()):
                return


def _answer(bench: Bench, pipe: Connection, job: Job) -> bool:
    """Whether this process can go on."""
    failure = None
    try:
        for row in bench.rows(job):
            pipe.send(("row", row))
    except Exception as error:
        failure = Failure(verdict_of(error.__cause__ or error), _text(error))
        traceback.clear_frames(error.__traceback__)  # they hold the problem's tensors
    if failure is not None and failure.verdict is not Verdict.OUT_OF_MEMORY:
        pipe.send(("ended", failure))
        return False
    bench.clear()
    pipe.send(("done", None) if failure is None else ("failed", failure))
    return True


def _warm_up(machine: Machine) -> None:
    """Start CUDA and CUPTI, which takes a second, before it is this process's turn."""
    nothing = Subject("nothing", lambda: lambda: torch.zeros(1, device=machine.device))
    timers, _ = machine.timers()
    with contextlib.suppress(ActivityError):
        timers[0].start()
        timers[0].time(nothing)
        timers[0].stop()
    del timers
    torch.cuda.empty_cache()


def _take_turns_benchmarking(turn: Turn) -> None:
    """Inductor times its choices while it compiles: that needs the turn as well."""
    from torch._inductor.runtime import benchmarking

    benchmarker = benchmarking.benchmarker
    benchmarker.benchmark_gpu = turn.during(benchmarker.benchmark_gpu)  # type: ignore[method-assign]


def environment(machine: Machine) -> Row:
    """What the times of a run depend on."""
    import triton

    properties = torch.cuda.get_device_properties()
    return {
        "device": properties.name,
        "memory_bytes": properties.total_memory,
        "driver": driver_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "triton": triton.__version__,
        "flush": machine.timers()[1],
        "plan": asdict(plan_for(0.01)),
    }
