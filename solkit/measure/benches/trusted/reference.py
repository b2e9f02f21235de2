"""The time of the reference, which the timing process takes once per problem and shape."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solkit.core import Params, canonical

if TYPE_CHECKING:
    from solkit.kernelfiles import Workload
    from solkit.measure.timing.machine import Machine

__all__ = ["ReferenceTime", "ReferenceTimes"]

_LONGEST_MS = 50.0  # a slower reference would cost more than the kernels that it is compared with
_SAMPLES = 5


@dataclass(frozen=True)
class ReferenceTime:
    """Time of a call of a reference."""

    samples_ms: tuple[float, ...]
    median_ms: float
    method: str  # of timing, as in `Outcome`

    def fields(self, method: str | None) -> dict[str, Any]:
        """Return fields of an `Outcome` that was timed by a method; none if it is another one."""
        if method != self.method:
            return {}
        return {"reference_ms": self.median_ms, "reference_samples_ms": self.samples_ms}


class ReferenceTimes:
    """Times each reference once per shape, with L2 flushed and by the first timer that works."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[str, str], ReferenceTime | None] = {}

    def of(self, name: str, shape: Params, problem: Workload) -> ReferenceTime | None:
        """Return the time of the reference of that name at a shape; it ran before on these inputs.

        ``None`` if a call takes over `_LONGEST_MS`, or it cannot be timed.
        """
        key = name, canonical(shape)
        if key not in self._known:
            try:
                self._known[key] = self._timed(problem)
            except Exception:  # it, or a timer, may raise anything: its kernels are still timed
                self._known[key] = None
        return self._known[key]

    def _timed(self, problem: Workload) -> ReferenceTime | None:
        from solkit.measure.checking.inputs import fresh
        from solkit.measure.timing import sampling
        from solkit.measure.timing.median_interval import median_interval

        own = fresh(problem) if problem.outputs else problem
        if self._call_ms(own) > _LONGEST_MS:
            return None
        subject = sampling.Subject("reference", lambda: own.run_reference)
        plan = sampling.SamplingPlan(warmup=1, minimum=_SAMPLES, maximum=_SAMPLES)

        def taken(timer: sampling.Timer) -> ReferenceTime:
            sides = sampling.in_turns(timer, subject)
            (series,) = sampling.sample(sides, plan, random.Random(0))
            median_ms = median_interval(series.spans_ms).median
            return ReferenceTime(tuple(series.spans_ms), median_ms, timer.method)

        return sampling.by_first_that_works(self._machine.timers()[0], taken)[0]

    def _call_ms(self, problem: Workload) -> float:
        """Return the time of a call by the host's clock."""
        start = time.perf_counter()
        problem.run_reference()
        self._machine.synchronize()
        return 1e3 * (time.perf_counter() - start)
