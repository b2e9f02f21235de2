"""A kernel's time over the speed of light, as a product of named factors.

Steps lead from the speed of light to the kernel's own time; each adds one thing that the kernel
does or meets. A factor is one step over the previous one, so all of them multiply to the gap. Steps
are times from `solkit.roofline.kernel.model`'s terms. Each launch takes the longest of what it has
so far; a step is the sum over all launches of a call, as they do not overlap:

=================  ================================================================================
extra work         its operations, each on the pipe that the bound chose
wrong pipe         the same on the pipes that it uses
sustained rates    these, and the bytes that the problem needs, at rates that a GPU sustains
extra traffic      what its own loads and stores move through DRAM, L2, L1 and shared memory
instructions       issuing all instructions: addresses, conversions, branches, whole functions
tail               the busiest SM instead of the mean
latency            what the busiest resource does not hide: occupancy, stages, dependences
dispatch           starting blocks one by one, if that takes longer than their work
launch             launches, and the time between kernels if measured
clock              the observed SM clock, if the kernel depends on it
unexplained        the measured time over all of the above
=================  ================================================================================

`solkit.roofline.kernel.causes` names the causes of large factors. A large factor without one says
that no cause is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from solkit.core import Bound, Cause, Device, Gap, GapFactor, KernelAnalysis, Measurement
from solkit.core.quantities import amount, count
from solkit.roofline.kernel.causes import MATTERS, cause_of
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.model import prefetched_steps, resident
from solkit.roofline.kernel.naming import ProblemNeeds, format_count
from solkit.roofline.kernel.savings import with_speedups
from solkit.roofline.precision_routes import triton_precisions

FACTORS = (
    *("extra work", "wrong pipe", "sustained rates", "extra traffic", "instructions", "tail"),
    *("latency", "dispatch", "launch", "clock", "unexplained"),
)
"""Names of the factors, in the order in which they multiply."""

_LARGE = 1.15
"""A factor from here on says so if no cause of it is known."""
_MUCH = 0.2
"""Least share of what a step adds to one launch, from which it counts beside another's."""
_UNKNOWN = " No cause of this is known."
_GIVEN = " Nothing in the kernel changes this."

_HALVES = ("fp16", "bf16")


def modelled_ms(kernels: Sequence[KernelAnalysis], bound: Bound) -> float | None:
    """Return the modelled time of all launches; never below the hard bound.

    Returns: Milliseconds; ``None`` if not every launch was modelled.
    """
    if not kernels or any(kernel.model is None for kernel in kernels):
        return None
    total = sum(k.model.time_ms * k.launch.count for k in kernels if k.model is not None)
    return max(total, bound.at.hard_ms)


def decompose_gap(
    bound: Bound,
    kernels: Sequence[KernelAnalysis],
    device: Device,
    measurement: Measurement | None = None,
) -> Gap | None:
    """Split a candidate's gap into factors.

    Args:
        bound: of the problem.
        kernels: the candidate's launches, with their demands and models.
        device: the target.
        measurement: of the candidate; without one the modelled time is split.

    Returns: The factors; ``None`` if a launch could not be analysed or the bound is zero.
    """
    expected_ms = modelled_ms(kernels, bound)
    if expected_ms is None or bound.time_ms <= 0:
        return None
    followed = [LaunchView(kernel, device, place) for place, kernel in enumerate(kernels)]
    precision = next((precision for precision, _ in triton_precisions(bound)), "")
    needs = ProblemNeeds(bound.flops_by_pipe, _needed_bytes(bound), precision)
    time_ms = expected_ms if measurement is None else measurement.median_ms
    factors, added, before = [], [], bound.time_ms
    for step in _decomposition_steps(bound, followed, device, measurement):
        after = max(step.time_ms, 1e-9)
        cause = cause_of(step.name, after / before, step.kernels, needs, step.grown)
        factors.append(_gap_factor(step.name, after / before, step.evidence, cause))
        added.append(step.added_ms)
        before = after
    factors = with_speedups(factors, added, followed)
    if measurement is not None:
        factors.append(_unexplained(time_ms / before))
    elif abs(time_ms / before - 1) > 1e-9:
        by_bound = expected_ms <= bound.at.hard_ms  # which applies if the model is below it
        evidence = _UNSEEN_WORK if by_bound else _SKIPPED_WORK
        factors.append(GapFactor("unexplained", time_ms / before, evidence))
    return Gap(bound.time_ms, time_ms, measurement is not None, tuple(factors))


_UNSEEN_WORK = (
    "The hard bound: the model gives the launches less time, for example because they do only part "
    "of the work, or much is guessed."
)
_SKIPPED_WORK = (
    "By the model the launches do less than the speed of light counts: they skip work that the "
    "data make needless, or much is guessed."
)


def _gap_factor(name: str, factor: float, evidence: str, cause: Cause | None) -> GapFactor:
    if cause is None and factor >= _LARGE:
        evidence += _GIVEN if name in ("sustained rates", "clock") else _UNKNOWN
    return GapFactor(name, factor, evidence, cause)


@dataclass(frozen=True)
class _Step:
    """A time between the speed of light and the kernel's own.

    Attributes:
        kernels: the launches, those first to which it adds most.
        added_ms: what it adds to each, by position; empty if it is about no launch alone.
    """

    name: str
    time_ms: float
    evidence: str
    kernels: Sequence[LaunchView]
    added_ms: Mapping[int, float] = field(default_factory=dict)

    @property
    def grown(self) -> Sequence[LaunchView]:
        """The launches to which it adds much, beside the one to which it adds most."""
        most = max(self.added_ms.values(), default=0.0)
        return [k for k in self.kernels if self.added_ms.get(k.position, most) >= _MUCH * most]


def _decomposition_steps(
    bound: Bound, kernels: Sequence[LaunchView], device: Device, measurement: Measurement | None
) -> Iterator[_Step]:
    total_ms, reached = bound.time_ms, [0.0] * len(kernels)
    for name, time_at_level, evidence in _launch_levels(bound, device):
        before = reached
        reached = [
            max(time_ms, time_at_level(kernel) * kernel.count)
            for time_ms, kernel in zip(before, kernels, strict=True)
        ]
        total_ms = max(sum(reached), total_ms)
        if name == "sustained rates":
            total_ms = max(total_ms, _needed_ms(bound, kernels))
        ordered = _by_growth(kernels, before, reached)
        added_ms = {k.position: b - a for k, a, b in zip(kernels, before, reached, strict=True)}
        yield _Step(name, total_ms, evidence(ordered), ordered, added_ms)
    launch_ms = total_ms + _launches_ms(kernels, measurement)
    ordered = sorted(kernels, key=lambda kernel: -kernel.count)
    yield _Step("launch", launch_ms, _launches(kernels, measurement), ordered)
    if measurement is not None and measurement.sm_clock_mhz:
        slower = _clock_factor(kernels, device, measurement.sm_clock_mhz)
        seen = f"{measurement.sm_clock_mhz:.0f} MHz of {device.clock_mhz:.0f}"
        yield _Step("clock", launch_ms * slower, f"The SMs ran at {seen}.", kernels)


_Level = tuple[str, Callable[[LaunchView], float], Callable[[Sequence[LaunchView]], str]]


def _launch_levels(bound: Bound, device: Device) -> tuple[_Level, ...]:
    """Return the steps up to the launch: names, times of one launch in ms, and evidence."""
    contraction = max(
        (pipe for pipe in bound.flops_by_pipe if pipe.startswith("tensor.")),
        key=lambda pipe: bound.flops_by_pipe[pipe],
        default=None,
    )
    return (
        (
            "extra work",
            lambda k: _work_at_ceiling_ms(k, bound, device, contraction),
            lambda kernels: _operations(bound, kernels),
        ),
        (
            "wrong pipe",
            lambda k: k.needed_ceiling_ms(bound.flops_by_pipe),
            lambda kernels: _pipes_used(bound, kernels),
        ),
        ("sustained rates", lambda k: k.pipes_ms, _sustained),
        ("extra traffic", lambda k: k.traffic_ms, lambda kernels: _bytes_moved(bound, kernels)),
        ("instructions", lambda k: k.issue_ms, _issued_evidence),
        ("tail", lambda k: k.longest(even=False), _occupancy_evidence),
        ("latency", lambda k: k.running("dispatch"), _latency_evidence),
        ("dispatch", lambda k: k.running(), _beginning),
    )


def _by_growth(
    kernels: Sequence[LaunchView], before: Sequence[float], after: Sequence[float]
) -> Sequence[LaunchView]:
    grown = sorted(
        zip(kernels, before, after, strict=True), key=lambda row: (row[1] - row[2], -row[2])
    )
    return [kernel for kernel, *_ in grown]


def _needed_bytes(bound: Bound) -> float:
    return next((r.amount for r in bound.resources if r.name == "dram"), 0)


# --------------------------------------------------------------------------------------- steps


def _needed_ms(bound: Bound, kernels: Sequence[LaunchView]) -> float:
    """Return the bytes that the problem needs, at the rate that the launches' own take at DRAM."""
    moved = sum(k.dram_bytes * k.count for k in kernels)
    taken_ms = sum(k.own_dram_ms * k.count for k in kernels)
    return _needed_bytes(bound) * taken_ms / moved if moved else 0.0


def _work_at_ceiling_ms(
    kernel: LaunchView, bound: Bound, device: Device, contraction: str | None
) -> float:
    """Return the busiest of the bound's pipes at its ceiling."""
    done: dict[str, float] = {}
    for pipe, operations in kernel.demand.operations.items():
        chosen = _bound_pipe(pipe, kernel, bound, contraction)
        if chosen in device.ceilings:
            done[chosen] = done.get(chosen, 0.0) + operations
    return max((1e3 * n / device.ceilings[p].value for p, n in done.items()), default=0.0)


def _bound_pipe(pipe: str, kernel: LaunchView, bound: Bound, contraction: str | None) -> str:
    """Return the pipe on which the bound has a kernel's operations."""
    if contraction and _is_product(pipe, kernel):
        return contraction
    if pipe == "fp64" and "fp64" not in bound.flops_by_pipe:
        pipe = "fp32"
    if pipe == "fp32":
        return next((half for half in _HALVES if half in bound.flops_by_pipe), pipe)
    return pipe


def _is_product(pipe: str, kernel: LaunchView) -> bool:
    """Tell whether a pipe's operations are those of a matrix product."""
    return pipe.startswith("tensor.") or (pipe in ("fp32", "fp64") and not kernel.products)


def _launches_ms(kernels: Sequence[LaunchView], measurement: Measurement | None) -> float:
    """Return an empty kernel each, plus the time with no kernel running if measured."""
    launches = sum(
        term.time_ms * kernel.count
        for kernel in kernels
        for term in kernel.terms
        if term.name == "launch"
    )
    if measurement is None or measurement.kernel_sum_ms is None:
        return launches
    return launches + max(measurement.median_ms - measurement.kernel_sum_ms, 0.0)


def _clock_factor(kernels: Sequence[LaunchView], device: Device, seen_mhz: float) -> float:
    """Return the slowdown of clock-bound time; calibrated rates have their own clock."""
    longest = [max(k.terms, key=lambda term: term.time_ms) for k in kernels]
    bound_by_clock = [t for t in longest if t.name not in ("dram", "launch")]
    if not bound_by_clock or any(t.name in device.calibrated for t in bound_by_clock):
        return 1.0
    return max(device.clock_mhz / seen_mhz, 1.0)


# ------------------------------------------------------------------------------------- evidence


def _operations(bound: Bound, kernels: Sequence[LaunchView]) -> str:
    performed, needed = _operations_by_pipe(kernels), dict(bound.flops_by_pipe)
    for half in (pipe for pipe in _HALVES if pipe not in performed):  # computed in fp32 instead
        needed["fp32"] = needed.get("fp32", 0) + needed.pop(half, 0)
    parts = [
        f"{pipe}: {count(done, 'operations')}, {count(needed.get(pipe, 0))} needed"
        for pipe, done in performed.items()
    ]
    return ("; ".join(parts) or "No floating-point operations") + "."


def _operations_by_pipe(kernels: Sequence[LaunchView]) -> dict[str, int]:
    total: dict[str, int] = {}
    for kernel in kernels:
        for pipe, done in kernel.demand.operations.items():
            total[pipe] = total.get(pipe, 0) + done * kernel.count
    return total


def _pipes_used(bound: Bound, kernels: Sequence[LaunchView]) -> str:
    used = ", ".join(_with_instruction(pipe, kernels) for pipe in _operations_by_pipe(kernels))
    chosen = ", ".join(bound.flops_by_pipe)
    return f"The bound uses {chosen or 'no pipe'}; the kernel uses {used or 'none'}."


def _with_instruction(pipe: str, kernels: Sequence[LaunchView]) -> str:
    """Add to a pipe's name the instruction that cannot fill it."""
    terms = (term for kernel in kernels for term in kernel.terms if term.name == pipe)
    return f"{pipe} by {_WARPS}" if any(_WARPS in term.evidence for term in terms) else pipe


_WARPS = "mma.sync"


def _bytes_moved(bound: Bound, kernels: Sequence[LaunchView]) -> str:
    dram = sum(k.dram_bytes * k.count for k in kernels)
    l2 = sum((k.demand.l2_read_bytes + k.demand.l2_write_bytes) * k.count for k in kernels)
    shared = sum(access.wavefronts * k.count for k in kernels for access in k.demand.shared)
    least = sum(access.least_wavefronts * k.count for k in kernels for access in k.demand.shared)
    first = kernels[0]
    banks = f"; {count(shared, 'wavefronts')} of shared memory"
    if shared > least:
        banks += f", {count(least)} without bank conflicts"
    elif first.memory != "shared":
        banks = ""
    others = sum(
        (k.demand.dram_read_bytes + k.demand.dram_write_bytes) * k.count
        for k in kernels
        if k.library
    )
    by_torch = f" ({amount(others, 'B')} by PyTorch's operators)" if others else ""
    return (
        f"{amount(dram, 'B')} from and to DRAM{by_torch}, "
        f"{amount(_needed_bytes(bound), 'B')} needed; "
        f"{amount(l2, 'B')} between L2 and the SMs{banks}"
        f"; {first.name} is limited by {_MEMORIES.get(first.memory, first.memory)}"
        f"{_in_sectors(first) if first.memory in ('l1', 'l2', 'dram') else ''}."
    )


def _in_sectors(kernel: LaunchView) -> str:
    """Return the bytes of the sectors that lanes touch, where they request much less of them."""
    accesses = kernel.demand.accesses
    touched = sum(access.sector_bytes for access in accesses)
    requested = sum(access.requested_bytes for access in accesses)
    if touched <= _SPARSE * requested:
        return ""
    return f", whose lanes touch {amount(touched, 'B')} of sectors for {amount(requested, 'B')}"


_SPARSE = 1.2
"""Bytes of sectors over those requested, from which accesses waste some."""

_MEMORIES = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "shared memory"}
_TOLD_KINDS = 3


_ONLY_LIBRARY = "Only PyTorch's operators run, whose code is not seen."


def _own_kernels(kernels: Sequence[LaunchView]) -> Sequence[LaunchView]:
    return [kernel for kernel in kernels if not kernel.library]


def _issued_evidence(kernels: Sequence[LaunchView]) -> str:
    if not _own_kernels(kernels):
        return _ONLY_LIBRARY
    first = _own_kernels(kernels)[0]
    if not first.issue_ms:
        return "The number of instructions is not known."
    evidence = f"{first.name}: {first.term('issue').evidence}"
    executed = sum(first.instructions.values())
    kinds = sorted(first.instructions.items(), key=lambda item: -item[1])[:_TOLD_KINDS]
    shares = ", ".join(
        f"{100 * number / executed:.0f} % {kind}" for kind, number in kinds if executed
    )
    return f"{evidence}{f'; {shares}' if shares else ''}."


def _sustained(kernels: Sequence[LaunchView]) -> str:
    """Say what DRAM and the busiest pipe of the first launch sustain."""
    first = kernels[0]
    shares = [
        f"{name} {100 * first.sustained(name):.0f} %" for name in ("dram", first.pipe) if name
    ]
    return f"Sustained rates instead of the ceilings: {', '.join(shares)}."


def _occupancy_evidence(kernels: Sequence[LaunchView]) -> str:
    if not _own_kernels(kernels):
        return _ONLY_LIBRARY
    worst = max(_own_kernels(kernels), key=lambda kernel: kernel.busiest_sm_ratio)
    evidence = f"{worst.name}: {format_count(worst.blocks, 'block')} on {worst.device.sm_count} SMs"
    if worst.demand.imbalance > MATTERS:
        evidence += f", the longest takes {worst.demand.imbalance:.3g} times the mean"
    return evidence + "."


def _latency_evidence(kernels: Sequence[LaunchView]) -> str:
    if not _own_kernels(kernels):
        return _ONLY_LIBRARY
    worst = max(_own_kernels(kernels), key=lambda k: k.running("dispatch") - k.longest(even=False))
    blocks = resident(worst.kernel, worst.device)
    return (
        f"{worst.name}: {blocks:.3g} block{'s' * (blocks != 1)} of "
        f"{format_count(worst.kernel.launch.num_warps, 'warp')} on an SM, each with the loads of "
        f"{_steps_ahead(prefetched_steps(worst.kernel))} under way; "
        f"{worst.term('latency').evidence}."
    )


def _steps_ahead(steps: float) -> str:
    return "one step of its loop" if steps <= 1 else f"{steps:.3g} steps of its loop"


def _beginning(kernels: Sequence[LaunchView]) -> str:
    if not _own_kernels(kernels):
        return _ONLY_LIBRARY
    worst = max(
        _own_kernels(kernels), key=lambda kernel: kernel.running() - kernel.running("dispatch")
    )
    return f"{worst.name}: {worst.term('dispatch').evidence}."


def _launches(kernels: Sequence[LaunchView], measurement: Measurement | None) -> str:
    count = sum(kernel.count for kernel in kernels)
    evidence = f"{count} launch{'es' if count > 1 else ''}"
    others = count - sum(kernel.count for kernel in _own_kernels(kernels))
    if others:
        evidence += f", {others} of them PyTorch's operators"
    if measurement is None or measurement.kernel_sum_ms is None:
        return evidence + "."
    idle_ms = max(measurement.median_ms - measurement.kernel_sum_ms, 0.0)
    return f"{evidence}, {1e3 * idle_ms:.3g} µs with no kernel running."


def _unexplained(factor: float) -> GapFactor:
    evidence = "The measured time over all of the above."
    if factor < 1:
        evidence = "The kernel is faster than modelled."
    return _gap_factor("unexplained", factor, evidence, None)
