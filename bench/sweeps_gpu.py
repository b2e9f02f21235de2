"""Time configurations of kernels on this machine's GPU: the part of `sweeps` that needs one.

Processes with no GPU compile ahead, into Triton's own cache (`sweeps_jobs.compile_ahead`), while
this one checks and times. It takes a handful of configurations of each kernel and shape, then of
the next, so that a run that is cut has looked at all of them alike.

Each configuration is called once and held against the reference. Those of a handful that are right
are then timed in turns, in random order, by CUPTI's activity records as everywhere in SolKit: the
span from first start to last end of all kernels of a call, L2 flushed before each by reading a
buffer, so that clean lines are left in it. That is 0.3 ms a call; CUDA events would take 0.1 and be
some µs too long, replayed graphs could not be flushed in between. Lines are on disk before the next
handful is begun.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from sweeps import OK, ROOT, Row, by_problem, key_of, read

from solkit import kernelfiles
from solkit.core import Device, Verdict
from solkit.errors import UnsupportedError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.measure._forkserver import ForkServer
from solkit.measure.activities import ActivityError
from solkit.measure.compare import default_tolerance, judge
from solkit.measure.faults import CandidateError, explain, verdict_of
from solkit.measure.inputs import seed_everything
from solkit.measure.machine import CudaMachine, Machine
from solkit.measure.sampling import Plan, Series, Subject, in_turns, sample
from solkit.measure.statistics import median_interval
from solkit.roofline.nvml import driver_version

__all__ = ["Bench", "Compilers", "collect", "handfuls"]

_HANDFUL = 10
_PLAN = Plan(warmup=2, minimum=9, maximum=9)
_COMPILE_S = 60.0
_SEED = 0
_MAX_TEXT = 500
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def collect(
    wanted: Sequence[Row], device: Device, out: Path, seconds: float, workers: int | None
) -> int:
    """Time what is wanted and not in `out` yet, until the seconds are over; the exit code.

    Args:
        wanted: file, shape and params of each configuration.
        device: the catalogue's name for this machine's GPU.
        out: a line a configuration is appended there.
        seconds: when to stop.
        workers: processes that compile.
    """
    start = time.monotonic()
    try:
        machine = CudaMachine()
    except UnsupportedError as error:
        print(f"sweeps: {error}", file=sys.stderr)
        return 2
    _mend(out)
    done = {key_of(row) for row in read(out)}
    todo = [row for row in wanted if key_of(row) not in done]
    count = workers or max((os.cpu_count() or 2) - 2, 1)
    with Compilers(todo, device, count) as compilers, out.open("a", encoding="utf-8") as file:
        bench = Bench(machine, compilers.reason)
        _write(file, [bench.run()])
        began, timed = time.monotonic(), 0
        for rows in handfuls(todo):
            if time.monotonic() - start > seconds:
                break
            _write(file, bench.time(rows))
            timed += len(rows)
            _progress(rows, timed, len(todo), time.monotonic() - began)
            if bench.is_lost:
                print("the GPU's context is lost: run this again to go on")
                return 1
    return 0


def handfuls(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Some configurations of each problem in turn, until all have had theirs."""
    problems = list(by_problem(rows).values())
    for first in range(0, max(map(len, problems), default=0), _HANDFUL):
        yield from (p[first : first + _HANDFUL] for p in problems if len(p) > first)


def _mend(path: Path) -> None:
    """Take away a last line that was cut."""
    path.touch()
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(whole.rfind(b"\n") + 1)


def _write(file: Any, rows: Sequence[Row]) -> None:
    for row in rows:
        file.write(json.dumps(row) + "\n")
    file.flush()
    os.fsync(file.fileno())


def _progress(rows: Sequence[Row], timed: int, all_of: int, seconds: float) -> None:
    name = Path(rows[0]["file"]).stem
    print(f"{timed} of {all_of}: {name}, {timed / seconds:.1f} configurations a second", flush=True)


# -------------------------------------------------------------------------------------- compiling


class Compilers:
    """Processes that compile configurations in the order in which they will be timed.

    Args:
        rows: the configurations.
        device: what they are compiled for.
        count: processes at once.
    """

    def __init__(self, rows: Sequence[Row], device: Device, count: int) -> None:
        self._server = ForkServer("solkit.study:warm_up", _NO_GPU)
        self._device = device
        self._pool = ThreadPoolExecutor(count)
        self._futures: dict[str, Future[str]] = {
            key_of(row): self._pool.submit(self._compile, row) for group in handfuls(rows)
            for row in group
        }  # fmt: skip

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._server.close()

    def reason(self, row: Row) -> str:
        """Why a configuration does not compile; empty where it does. Waits for the answer."""
        return self._futures[key_of(row)].result()

    def _compile(self, row: Row) -> str:
        given = str(ROOT / row["file"]), row["shape"], row["params"], self._device
        with tempfile.TemporaryFile("w+") as output:
            env = {**os.environ, **_NO_GPU}
            job = self._server.fork(
                "sweeps_jobs:compile_ahead", given, env=env, output=output.fileno()
            )
            ended = job.wait(_COMPILE_S)
            if ended is None:
                job.end()
                return f"compiling took over {_COMPILE_S:g} s"
            output.seek(0)
            return "" if ended == 0 else output.read()[-_MAX_TEXT:] or f"ended with {ended}"


# ----------------------------------------------------------------------------------------- timing


class Bench:
    """Checks and times on a machine.

    Args:
        machine: what to time on.
        reason: why a configuration does not compile; empty where it does.

    Attributes:
        is_lost: whether a kernel has broken the GPU's context: nothing more can be run here.
    """

    def __init__(self, machine: Machine, reason: Callable[[Row], str]) -> None:
        self._machine, self._reason = machine, reason
        self._loaded: dict[str, LoadedKernel] = {}
        self.is_lost = False

    def run(self) -> Row:
        """What holds for all rows of a run."""
        return {
            "kind": "run",
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "device": torch.cuda.get_device_name(),
            "driver": driver_version(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "flush": self._machine.timers()[1],
        }

    def time(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with their times, or with what failed; all are of one problem."""
        path = str(ROOT / rows[0]["file"])
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
        rows = [{"kind": "time", **row, "sha256": digest} for row in rows]
        try:
            return self._outcomes(path, rows)
        except Exception as error:  # of the problem or of timing: the other problems go on
            return [{**row, **self._failure(error, path)} for row in rows]

    def _outcomes(self, path: str, rows: Sequence[Row]) -> list[Row]:
        if path not in self._loaded:
            self._loaded[path] = kernelfiles.load(path)
        seed_everything(_SEED)
        problem = self._loaded[path].workload(rows[0]["shape"], {}, self._machine.device)
        want = problem.run_reference()
        failed: list[Row] = []
        right: list[tuple[Row, Workload]] = []
        for row in rows:
            try:
                right.append((row, self._checked(row, problem, want)))
            except Exception as error:  # whatever a candidate may raise
                failed.append({**row, **self._failure(error, path)})
            if self.is_lost:  # those that are right have no row: the next run takes them
                return failed
        del want
        return failed + (self._timed(right) if right else [])

    def _checked(self, row: Row, problem: Workload, want: Sequence[torch.Tensor]) -> Workload:
        """The configuration's workload on the problem's inputs, once it has been right."""
        reason = self._reason(row)
        if reason:
            raise CandidateError(Verdict.DOES_NOT_COMPILE, (reason,))
        loaded = self._loaded[str(ROOT / row["file"])]
        made = loaded.workload(row["shape"], row["params"], self._machine.device)
        workload = made.with_inputs(problem.args, problem.kwargs)
        start = time.perf_counter()
        got = workload.run_kernel()
        self._machine.synchronize()
        row["first_call_s"] = round(time.perf_counter() - start, 4)  # from Triton's cache
        tolerance = loaded.description.problem.tolerance or default_tolerance(want[0].dtype)
        found = judge(got, want, tolerance, workload.check)
        if found.errors:
            raise CandidateError(Verdict.WRONG, found.errors)
        row["max_error"] = found.max_error
        return workload

    def _failure(self, error: Exception, path: str) -> Row:
        """What a failed configuration's row says; takes note where the GPU is lost by it."""
        if isinstance(error, CandidateError):
            verdict, message = error.verdict, error.errors[0]
        else:
            verdict, message = verdict_of(error), explain(error, "running it", path)[0]
        try:
            self._machine.synchronize()
        except RuntimeError:
            self.is_lost = True
        return {"status": verdict.value, "message": message[:_MAX_TEXT]}

    def _timed(self, right: Sequence[tuple[Row, Workload]]) -> list[Row]:
        """Time configurations in turns, by the first timer that works."""
        subjects = [Subject(str(i), partial(_call, w)) for i, (_, w) in enumerate(right)]
        timers, _ = self._machine.timers()  # anew: they learn how long the host takes over a call
        reasons = []
        for timer in timers:
            try:
                with self._machine.conditions() as conditions:
                    taken = sample(in_turns(timer, *subjects), _PLAN, random.Random(_SEED))
            except ActivityError as error:
                reasons.append(str(error))
                continue
            clock = {"method": timer.method, "sm_clock_mhz": conditions.since().sm_clock_mhz}
            return [
                {**row, **_times(series), **clock}
                for (row, _), series in zip(right, taken, strict=True)
            ]
        raise RuntimeError("no way of timing works: " + "; ".join(reasons))


def _call(workload: Workload) -> Callable[[], Any]:
    assert workload.kernel is not None
    return partial(workload.kernel, *workload.args, **workload.kwargs)


def _times(series: Series) -> Row:
    spans = median_interval(series.spans_ms)
    sums = [t.kernel_sum_ms for t in series.times if t.kernel_sum_ms is not None]
    return {
        "status": OK,
        "median_ms": spans.median,
        "low_ms": spans.low,
        "high_ms": spans.high,
        "kernel_sum_ms": median_interval(sums).median if sums else None,
        "samples": len(series.times),
    }
