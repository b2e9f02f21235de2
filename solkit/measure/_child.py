"""The measuring process: checks a candidate, times it, and answers.

Started by `solkit.measure._parent.run`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from solkit.core import KernelAnalysis, Measurement, Protocol, Tolerance, Verdict
from solkit.errors import KernelFileError, SolkitError, UnsupportedError, WorkerError
from solkit.kernelfiles import LoadedKernel, Workload, load
from solkit.measure._process import read_request
from solkit.measure.activities import ActivityError
from solkit.measure.compare import compare, judge
from solkit.measure.faults import CandidateError, explain, verdict_of
from solkit.measure.inputs import fresh, is_unchanged, seed_everything
from solkit.measure.machine import CpuMachine, CudaMachine, Machine
from solkit.measure.messages import Outcome, Request, decode, encode
from solkit.measure.sampling import Plan, Samples, Subject, plan_for, sample
from solkit.measure.statistics import median_interval

__all__ = ["examine"]

_CHECKED_SEEDS = 2
_RECORDED_CALLS = 1


@dataclass(frozen=True)
class _Checked:
    """A candidate that was right on one set of inputs.

    Attributes:
        workload: the inputs, untouched.
        want: the reference's outputs.
        max_error: the candidate's largest error.
        writes: whether a call changes its inputs.
        reference_s: how long the reference took, by the wall clock.
    """

    workload: Workload
    want: list[torch.Tensor]
    max_error: float
    writes: bool
    reference_s: float


@dataclass(frozen=True)
class _Timed:
    """What timing gave.

    Attributes:
        samples: the times.
        method, flush: as in `solkit.core.Protocol`.
        notes: why a better method was not used.
        sm_clock_mhz: median SM clock meanwhile.
    """

    samples: Samples
    method: str
    flush: str
    notes: tuple[str, ...]
    sm_clock_mhz: float | None


def examine(request: Request, machine: Machine, say: Callable[[str], None]) -> Outcome:
    """Check and time the candidate of a request.

    Args:
        request: what to measure.
        machine: what it runs on.
        say: told what is being done, so that it is known should the process die of it.

    Raises:
        InputError: the kernel file, the shape or the parameters are at fault.
        UnsupportedError: this machine cannot do it.
    """
    say("loading the kernel file")
    loaded = load(request.path, reference=request.reference)
    if loaded.description.candidate is None:
        raise KernelFileError("has no kernel to measure", request.path)
    if loaded.description.problem.reference is None:
        raise KernelFileError("has no reference to check the kernel against", request.path)
    try:
        return _Examination(request, loaded, machine, say).outcome()
    except CandidateError as failure:
        return Outcome(failure.verdict, failure.errors, None, None)


class _Examination:
    """The course of one examination; raises `CandidateError` where the candidate fails."""

    def __init__(
        self,
        request: Request,
        loaded: LoadedKernel,
        machine: Machine,
        say: Callable[[str], None],
    ) -> None:
        self._request, self._loaded = request, loaded
        self._machine, self._say = machine, say
        self._timed_outputs: list[torch.Tensor] = []  # of the candidate's last timed call

    def outcome(self) -> Outcome:
        seed = self._request.seed
        errors = []
        degenerate = False
        earlier: _Checked | None = None
        for checked_seed in reversed(range(seed, seed + _CHECKED_SEEDS)):  # timed: the last
            checked = self._check(checked_seed)
            errors.append(checked.max_error)
            degenerate = earlier is not None and _is_degenerate(earlier, checked)
            earlier = checked
        launches = self._record_launches(checked)
        plan = plan_for(checked.reference_s)
        timed = self._time(checked, plan)
        errors.append(
            self._judge(self._timed_outputs, checked.workload, checked.want, "the last timed call")
        )
        protocol = Protocol(
            method=timed.method,
            l2="cold",
            flush=timed.flush,
            warmup_calls=_CHECKED_SEEDS + _RECORDED_CALLS + plan.warmup,
            samples=len(timed.samples.candidate),
            time_limit_s=self._request.time_limit_s,
            seed=seed,
        )
        measurement = _measurement(timed, max(errors), launches)
        verdict = Verdict.DEGENERATE_PROBLEM if degenerate else Verdict.CORRECT
        notes = (_DEGENERATE, *timed.notes) if degenerate else timed.notes
        return Outcome(verdict, notes, protocol, measurement)

    def _check(self, seed: int) -> _Checked:
        workload = self._make_inputs(seed)
        # The reference's outputs stay alive, so that no memory holding them is given out again.
        start = time.perf_counter()
        want, reference_copy = self._run_reference(workload, seed)
        reference_s = time.perf_counter() - start
        copy = fresh(workload)
        with self._candidate_at_fault("running the candidate"):
            seed_everything(seed)
            got = copy.run_kernel()
        max_error = self._judge(got, workload, want, f"seed {seed}")
        writes = not (is_unchanged(workload, copy) and is_unchanged(workload, reference_copy))
        return _Checked(workload, want, max_error, writes or bool(workload.outputs), reference_s)

    def _make_inputs(self, seed: int) -> Workload:
        self._say("making the inputs")
        request = self._request
        seed_everything(seed)
        try:
            return self._loaded.workload(request.shape, request.params, self._machine.device)
        except KernelFileError as error:
            if verdict_of(error.__cause__ or error) is Verdict.OUT_OF_MEMORY:
                raise UnsupportedError(f"the inputs do not fit into memory: {error}") from error
            raise

    def _run_reference(self, workload: Workload, seed: int) -> tuple[list[torch.Tensor], Workload]:
        self._say("running the reference")
        copy = fresh(workload)
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
        return want, copy

    def _record_launches(self, checked: _Checked) -> tuple[KernelAnalysis, ...]:
        workload = fresh(checked.workload) if checked.writes else checked.workload
        with (
            self._machine.recording() as launches,
            self._candidate_at_fault("running the candidate again"),
        ):
            workload.run_kernel()
        return tuple(launches)

    def _time(self, checked: _Checked, plan: Plan) -> _Timed:
        notes: list[str] = []
        timers, flush = self._machine.timers()
        for timer in timers:
            order = random.Random(self._request.seed)
            try:
                with self._machine.clock() as clock, self._candidate_at_fault("timing"):
                    samples = sample(timer, *self._subjects(checked), plan, order)
            except ActivityError as error:
                notes.append(f"not timed by {timer.method}: {error}")
                continue
            return _Timed(samples, timer.method, flush, tuple(notes), clock.median_mhz)
        raise WorkerError("no way of timing works here: " + "; ".join(notes))

    def _subjects(self, checked: _Checked) -> tuple[Subject, Subject]:
        def prepare() -> Workload:
            seed_everything(self._request.seed)
            return fresh(checked.workload) if checked.writes else checked.workload

        def candidate() -> Callable[[], Any]:
            workload = prepare().with_destinations()

            def call() -> None:
                self._timed_outputs = workload.run_kernel()

            return call

        return (
            Subject("candidate", candidate),
            Subject("reference", lambda: prepare().run_reference),
        )

    def _judge(
        self,
        got: Sequence[torch.Tensor],
        workload: Workload,
        want: Sequence[torch.Tensor],
        which: str,
    ) -> float:
        tolerance = self._request.tolerance or self._loaded.description.problem.tolerance
        comparison = judge(got, want, tolerance, workload.check)
        if comparison.errors:
            errors = tuple(f"{error} ({which})" for error in comparison.errors)
            raise CandidateError(Verdict.WRONG, errors)
        return comparison.max_error

    @contextlib.contextmanager
    def _candidate_at_fault(self, doing: str) -> Iterator[None]:
        """Whatever is raised inside, or by what was launched inside, is the candidate's failure."""
        self._say(doing)
        try:
            yield
            self._machine.synchronize()
        except ActivityError:
            raise
        except (Exception, SystemExit) as error:
            errors = explain(error, doing, self._request.path)
            raise CandidateError(verdict_of(error), errors) from error


_DEGENERATE = (
    "The reference gives the same outputs, bit for bit, on two sets of inputs that differ: a "
    "kernel that does none of its work would be right."
)


def _is_degenerate(one: _Checked, other: _Checked) -> bool:
    """Whether inputs that differ gave the same outputs, floating ones among them."""
    floating = any(tensor.is_floating_point() for tensor in other.want)
    same = not compare(one.want, other.want, Tolerance(0.0, 0.0)).errors
    return floating and same and not is_unchanged(one.workload, other.workload)


def _measurement(
    timed: _Timed, max_error: float, launches: tuple[KernelAnalysis, ...]
) -> Measurement:
    candidate = timed.samples.candidate
    interval = median_interval([t.span_ms for t in candidate])
    sums = [t.kernel_sum_ms for t in candidate if t.kernel_sum_ms is not None]
    return Measurement(
        median_ms=interval.median,
        low_ms=interval.low,
        high_ms=interval.high,
        kernel_sum_ms=median_interval(sums).median if sums else None,
        reference_ms=median_interval([t.span_ms for t in timed.samples.reference]).median,
        method=timed.method,
        max_error=max_error,
        samples=len(candidate),
        sm_clock_mhz=timed.sm_clock_mhz,
        launches=launches,
    )


def _answer(request: Request, say: Callable[[str], None]) -> dict[str, Any]:
    try:
        machine = CpuMachine() if request.device == "cpu" else CudaMachine()
        return {"outcome": encode(examine(request, machine, say))}
    except SolkitError as error:
        return {"error": type(error).__name__, "args": list(error.args)}
    except BaseException:  # the caller must hear of it, whatever it was
        text = f"the measuring process failed:\n{traceback.format_exc()}"
        return {"error": WorkerError.__name__, "args": [text]}


def _main(fd: int) -> None:
    faulthandler.enable()
    request = decode(Request, read_request(fd))

    def tell(message: dict[str, Any]) -> None:
        os.write(fd, json.dumps(message).encode() + b"\n")

    tell(_answer(request, lambda stage: tell({"stage": stage})))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the answer is given: no exit handler or thread of the candidate's may delay it


if __name__ == "__main__":
    _main(int(sys.argv[1]))
