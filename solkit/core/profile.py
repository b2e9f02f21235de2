"""Time of a profiled run, by where it went."""

from __future__ import annotations

from dataclasses import dataclass

from solkit.core.devices import Device
from solkit.core.work import Bound


@dataclass(frozen=True)
class ProfiledKernel:
    """One kernel, copy or memset of a profiled run, over all its calls.

    Attributes:
        name: as the profiler recorded it.
        calls: how often it ran.
        time_ms: over all of them.
        op: the op that launched it, e.g. ``"aten::mm"``; empty if unknown.
        reason: why it has no bound; empty if its op has one.
    """

    name: str
    calls: int
    time_ms: float
    op: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ProfiledOp:
    """One op of a profiled run on inputs of one kind, over all its calls.

    Attributes:
        name: as the profiler recorded it, e.g. ``"aten::mm"``.
        inputs: its tensors, e.g. ``"bf16[8944, 1024]"``.
        calls: how often it was called.
        time_ms: of its kernels, over all calls.
        kernels: longest first.
        bound: of one call; its inputs start in DRAM.
        target_ms: of one call: the bound, or one kernel's launch time if that is more.
        saving_ms: how much `Profile.span_ms` would shrink if each call met its target.
    """

    name: str
    inputs: tuple[str, ...]
    calls: int
    time_ms: float
    kernels: tuple[ProfiledKernel, ...]
    bound: Bound
    target_ms: float
    saving_ms: float

    @property
    def bound_ms(self) -> float:
        """The bound of all calls."""
        return self.calls * self.bound.time_ms

    @property
    def gap(self) -> float:
        """Time / bound."""
        return self.time_ms / self.bound_ms if self.bound_ms else float("inf")

    @property
    def excess_ms(self) -> float:
        """Time of all calls beyond their targets; not all of it need be on the critical path."""
        return max(0.0, self.time_ms - self.calls * self.target_ms)


@dataclass(frozen=True)
class ProfiledCase:
    """Inputs of a problem that a run computed, over all its calls.

    Attributes:
        inputs: its tensors, e.g. ``"bf16[8944, 1024]"``.
        calls: how often it was computed.
        time_ms: of its kernels, over all calls.
        saving_ms: how much `Profile.span_ms` would shrink if each op of each call met its target.
        layout: the inputs as Python, for the reference file.
    """

    inputs: tuple[str, ...]
    calls: int
    time_ms: float
    saving_ms: float
    layout: str


@dataclass(frozen=True)
class ProfiledProblem:
    """Ops of a run that one kernel could compute: one, or elementwise ones that follow each other.

    Attributes:
        ops: their names in order, e.g. ``("aten::silu", "aten::mul")``.
        cases: inputs that differ in layout or type alone, each over all its calls.
        reference: the function that computes them, as Python; empty if there is none.
    """

    ops: tuple[str, ...]
    cases: tuple[ProfiledCase, ...]
    reference: str = ""

    @property
    def saving_ms(self) -> float:
        """Savings of all cases."""
        return sum(case.saving_ms for case in self.cases)


@dataclass(frozen=True)
class IdleTime:
    """The GPU's idle time, by what it waited for.

    Attributes:
        host_ms: the host launched the next work only after the GPU had run dry.
        wait_ms: the part of `host_ms` that follows a wait of the host for the GPU.
        queue_ms: gaps between work that was already queued.
    """

    host_ms: float
    wait_ms: float
    queue_ms: float


@dataclass(frozen=True)
class Profile:
    """Time of a profiled run, by where it went, and what could be saved.

    Attributes:
        path: the trace, or the script.
        device: the GPU.
        span_ms: the GPU's time from the first to the last step, idle time included.
        steps: number of steps; 0 if not counted.
        busy_ms: the part of `span_ms` in which something ran on the GPU.
        idle: the rest.
        ops: those with a bound; largest saving first.
        unbounded: kernels without a bound, longest first.
        saving_ms: what all `ops` at their targets would save together.
        notes: what a reader must know, each a sentence.
        failure: how the script failed; empty if it did not or there was none.
        problems: what its ops compute, if that was asked for; largest saving first.
    """

    path: str
    device: Device
    span_ms: float
    steps: int
    busy_ms: float
    idle: IdleTime
    ops: tuple[ProfiledOp, ...]
    unbounded: tuple[ProfiledKernel, ...]
    saving_ms: float
    notes: tuple[str, ...] = ()
    failure: str = ""
    problems: tuple[ProfiledProblem, ...] = ()

    def speedup(self, saving_ms: float) -> float:
        """Return the run's speedup if it takes that much less time; Amdahl's law."""
        left_ms = self.span_ms - saving_ms
        return self.span_ms / left_ms if left_ms > 0 else float("inf")
